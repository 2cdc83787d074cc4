import { createHash } from 'node:crypto'
import { keyedRedis, type KeyedRedis, type KeyedRedisClient } from '../platform/keyed-redis.ts'
import type { CacheServer } from './cache-server.ts'
import { CACHE_ANSWER_MS } from './limits.ts'

/**
 * The id of the server's history changes with each start and each promotion. What was written before may be old: it
 * came from a dump, or a replica had not heard of its removal. So nothing from before counts.
 */
const HERE = `local here = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
`

/** KEYS the key. ARGV nonce, ms */
const LOOK = script(`${HERE}local found = redis.call('GET', KEYS[1])
if found and string.sub(found, 1, #here + 1) == here .. '=' then return string.sub(found, #here + 2) end
redis.call('SET', KEYS[1], here .. '?' .. ARGV[1], 'PX', ARGV[2])
return false`)

/** KEYS the key. ARGV nonce, ms, entry */
const WRITE = script(`${HERE}if redis.call('GET', KEYS[1]) ~= here .. '?' .. ARGV[1] then return 0 end
redis.call('SET', KEYS[1], here .. '=' .. ARGV[3], 'PX', ARGV[2])
return 1`)

interface Script {
  readonly text: string
  readonly sha1: string
}

/** A cache on Redis 7 or later, or Valkey, for `tiered`. It needs no persistence, because it may lose any entry. */
export function redisCache(client: KeyedRedisClient): CacheServer {
  const commands = keyedRedis(client, 'redisCache()', CACHE_ANSWER_MS)
  return {
    name: 'redis',
    isReady: () => isReady(client),
    async look({ key, nonce, forMs }) {
      const found = await run(commands, LOOK, key, [nonce, String(forMs)])
      return found === null || found === undefined ? null : String(found)
    },
    write: async ({ key, nonce, forMs, entry }) =>
      Number(await run(commands, WRITE, key, [nonce, String(forMs), entry])) === 1,
    // One key per command: in a cluster, keys are on different nodes.
    drop: async (keys) => void (await Promise.all(keys.map((key) => commands.call(key, ['DEL', key])))),
  }
}

/** A client of a cluster tells only that it is open. */
function isReady(client: KeyedRedisClient & { readonly isReady?: boolean }): boolean {
  return 'status' in client ? client.status === 'ready' : (client.isReady ?? client.isOpen)
}

async function run(commands: KeyedRedis, { text, sha1 }: Script, key: string, args: string[]): Promise<unknown> {
  try {
    return await commands.call(key, ['EVALSHA', sha1, '1', key, ...args])
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
    return commands.call(key, ['EVAL', text, '1', key, ...args])
  }
}

function script(text: string): Script {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}
