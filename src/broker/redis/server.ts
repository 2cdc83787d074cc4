import type { Duration } from '../../duration.ts'
import { pairsOf, type RedisCommands } from './client.ts'
import type { Sink } from '../../sink/sink.ts'

/** What an acknowledgement of this server is worth, and which of its settings make it worth less. */
export interface ServerJudgement {
  readonly proves: Sink['proves']
  readonly dedupes: Sink['dedupes']
  /** XADD takes IDMP: the server itself drops an entry it has. */
  readonly idempotent: boolean
  /** Longer values break the connection. */
  readonly maxBytes: number
  readonly warnings: readonly string[]
}

export const UNKNOWN_SERVER: ServerJudgement = {
  proves: 'accepted',
  dedupes: false,
  idempotent: false,
  maxBytes: 512 * 1024 * 1024,
  warnings: [],
}

/** Entries are known by their ids for this long, and this many of each producer: 10,000 is the most there can be. */
const IDEMPOTENT_SECONDS = 300
const IDEMPOTENT_ENTRIES = 10_000
/** As many names as there are, so that more ids are known. What a server has unless it is told. */
const PRODUCERS = 16
const UNTOLD = { seconds: 100, entries: 100 }

/** Under which the server knows an aggregate's entries. The same for every relay: one sends again what another one began. */
export function producerOf(aggregate: string): string {
  let hash = 0
  for (let i = 0; i < aggregate.length; i++) hash = (Math.imul(hash, 31) + aggregate.charCodeAt(i)) >>> 0
  return `effectively-once-${hash % PRODUCERS}`
}

export async function judgeServer(
  redis: RedisCommands,
  options: { readonly stream: string; readonly replicas: number },
): Promise<ServerJudgement> {
  const warnings: string[] = []
  const settings = await settingsOf(redis).catch(() => undefined)
  const version = versionOf(String(await redis.call('INFO', 'server')))
  // Where scripts are not allowed, events are added without deduplication: a duplicate is better than a lost event.
  const dedup = version >= 8.06 ? await deduplication(redis, options.stream).catch(() => undefined) : undefined
  if (!settings)
    warnings.push('CONFIG GET is not allowed here, so it is unknown whether acknowledged events are on disk')
  else warnings.push(...durability(settings), ...forgetting(settings))
  const flushes = settings?.get('appendonly') === 'yes' && settings.get('appendfsync') === 'always'
  if (options.replicas === 0 && !flushes) {
    warnings.push('the sink waits for no replica: the loss of the machine can lose acknowledged events. Set waitFor')
  }
  if (!dedup) {
    warnings.push(
      'IDMP is not available (it needs Redis 8.6): an event that a relay sends twice is in the stream twice',
    )
  } else {
    const known = dedup.entries * PRODUCERS
    warnings.push(
      `IDMP remembers about ${known} events for ${dedup.seconds} s: an event sent again after that is in the stream twice`,
    )
  }
  return {
    proves: options.replicas > 0 ? 'replicated' : flushes ? 'flushed' : 'accepted',
    dedupes: dedup ? (`${dedup.seconds}s` satisfies Duration) : false,
    idempotent: dedup !== undefined,
    maxBytes: Number(settings?.get('proto-max-bulk-len') ?? UNKNOWN_SERVER.maxBytes),
    warnings,
  }
}

type Settings = ReadonlyMap<string, string>

async function settingsOf(redis: RedisCommands): Promise<Settings> {
  const names = ['appendonly', 'appendfsync', 'maxmemory', 'maxmemory-policy', 'proto-max-bulk-len']
  const replies = await Promise.all(names.map((name) => redis.call('CONFIG', 'GET', name)))
  return new Map(replies.flatMap((reply) => [...pairsOf(reply)].map(([name, value]) => [name, String(value)])))
}

function* durability(settings: Settings): Generator<string> {
  const sync = settings.get('appendfsync')
  if (settings.get('appendonly') !== 'yes') {
    yield 'appendonly is no: a crash loses every event since the last snapshot. Set appendonly yes'
  } else if (sync !== 'always') {
    yield `appendfsync is ${sync}: a power loss loses ${sync === 'everysec' ? 'the last second of ' : ''}acknowledged events. Set always`
  }
}

function* forgetting(settings: Settings): Generator<string> {
  const policy = settings.get('maxmemory-policy') ?? 'noeviction'
  const limited = settings.get('maxmemory') !== '0'
  if (limited && policy.startsWith('allkeys')) {
    yield `maxmemory-policy is ${policy}: a full server may drop the whole stream. Set noeviction`
  }
}

/** 7.2.4 is 7.02; Valkey says 7.2.4 for ever, and has no IDMP. */
function versionOf(info: string): number {
  const [, major = '0', minor = '0'] = /^redis_version:(\d+)\.(\d+)/m.exec(info) ?? []
  return Number(major) + Number(minor) / 100
}

/**
 * How long the server knows entries by their ids. The settings of a stream are written before it has its first entry: to
 * set them later forgets every id.
 */
async function deduplication(redis: RedisCommands, stream: string): Promise<{ seconds: number; entries: number }> {
  await redis.call('EVAL', MAKE_STREAM, '1', stream, String(IDEMPOTENT_SECONDS), String(IDEMPOTENT_ENTRIES))
  const info = pairsOf(await redis.call('XINFO', 'STREAM', stream))
  return {
    seconds: Number(info.get('idmp-duration') ?? UNTOLD.seconds),
    entries: Number(info.get('idmp-maxsize') ?? UNTOLD.entries),
  }
}

/** A stream can only be made empty through a group. One that never had an entry knows no id that could be forgotten. */
const MAKE_STREAM = `
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('XGROUP', 'CREATE', KEYS[1], 'effectively-once', '$', 'MKSTREAM')
  redis.call('XGROUP', 'DESTROY', KEYS[1], 'effectively-once')
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for i = 1, #info, 2 do
  if info[i] == 'entries-added' and info[i + 1] == 0 then
    redis.call('XCFGSET', KEYS[1], 'IDMP-DURATION', ARGV[1], 'IDMP-MAXSIZE', ARGV[2])
  end
end
return 0`
