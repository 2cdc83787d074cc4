import type { Duration } from '../../duration.ts'
import { pairsOf, type RedisCommands } from './client.ts'
import type { Sink } from '../../sink/sink.ts'

/** What an acknowledgement of this server proves, and which settings weaken it. */
export interface ServerJudgement {
  readonly proves: Sink['proves']
  readonly dedupes: Sink['dedupes']
  /** Whether XADD supports IDMP, with which the server drops duplicates. */
  readonly idempotent: boolean
  /** The server closes the connection if a value is longer. */
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

/** The server remembers ids this long, at most 10,000 of each producer. */
const IDEMPOTENT_SECONDS = 300
const IDEMPOTENT_ENTRIES = 10_000
/** More producer names let the server remember more ids. */
const PRODUCERS = 16
const SERVER_DEFAULT = { seconds: 100, entries: 100 }

/**
 * The producer name for an aggregate's entries. It is the same in every relay, because one relay may resend what
 * another began.
 */
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
  // If scripts are not permitted, events are added without deduplication: a duplicate is better than a lost event.
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

/** Turns 7.2.4 into 7.02. Valkey always reports 7.2.4, and has no IDMP. */
function versionOf(info: string): number {
  const [, major = '0', minor = '0'] = /^redis_version:(\d+)\.(\d+)/m.exec(info) ?? []
  return Number(major) + Number(minor) / 100
}

/**
 * How long the server remembers ids. The stream's settings are written before its first entry, because a later change
 * forgets every id.
 */
async function deduplication(redis: RedisCommands, stream: string): Promise<{ seconds: number; entries: number }> {
  await redis.call('EVAL', MAKE_STREAM, '1', stream, String(IDEMPOTENT_SECONDS), String(IDEMPOTENT_ENTRIES))
  const info = pairsOf(await redis.call('XINFO', 'STREAM', stream))
  return {
    seconds: Number(info.get('idmp-duration') ?? SERVER_DEFAULT.seconds),
    entries: Number(info.get('idmp-maxsize') ?? SERVER_DEFAULT.entries),
  }
}

/** Only a group can create an empty stream. A stream that never had an entry has no ids to forget. */
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
