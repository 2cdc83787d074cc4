import { milliseconds, type Duration } from '../../duration.ts'
import { REDIS_BATCH, REDIS_WAIT_MS_DEFAULT, REDIS_WAIT_MS_MAX } from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import { redisCommands, type RedisClient } from './client.ts'
import { judgeServer, producerOf, UNKNOWN_SERVER, type ServerJudgement } from './server.ts'
import { cloudEventJson, SENT, type OutgoingEvent, type Sink, type Verdict } from '../../sink/sink.ts'

export interface RedisSinkOptions {
  /** The key of the stream. A missing stream is created. */
  stream: string
  /** Names the destination. Default: `redis` and the stream's key */
  name?: string
  /** About how many entries the stream keeps. Older entries are dropped, even unread ones. Default: all of them */
  maxLength?: number
  /** How many replicas must have an event before it counts as sent (WAIT). Default: none */
  waitFor?: { replicas: number; timeout?: Duration }
}

const OPTIONS = new Set(['stream', 'name', 'maxLength', 'waitFor'])

/**
 * Appends to a Redis stream, each event as one entry with a CloudEvents JSON document. For clients of ioredis and of redis.
 *
 * @example
 * await once.relay({ to: redisSink(new Redis(), { stream: 'payments' }) }).start()
 */
export function redisSink(client: RedisClient, options: RedisSinkOptions): Sink {
  const { stream, trim, replicas, waitMs } = checked(options)
  const redis = redisCommands(client, 'redisSink()', stream)
  let judged: ServerJudgement = UNKNOWN_SERVER

  function entryOf(event: OutgoingEvent, json: string): readonly string[] {
    const known = judged.idempotent ? ['IDMP', producerOf(event.aggregate.id), event.deduplicationId] : []
    return ['XADD', stream, ...known, ...trim, '*', 'brokerid', event.brokerId, 'event', json]
  }

  async function replicated(commands: readonly (readonly string[])[]): Promise<void> {
    const have = Number(await redis.transaction(commands, ['WAIT', String(replicas), String(waitMs)]))
    if (!(have >= replicas)) throw new Error(`${have} of ${replicas} replicas have the events after ${waitMs} ms`)
  }

  return {
    name: options.name ?? `redis ${stream}`,
    system: 'redis',
    get proves() {
      return judged.proves
    },
    get dedupes() {
      return judged.dedupes
    },
    orders: true,
    batch: REDIS_BATCH,
    async open() {
      judged = await judgeServer(redis, { stream, replicas })
      return judged.warnings
    },
    async send(events, { signal }) {
      const commands: (readonly string[])[] = []
      const failed = new Map<string, Verdict>()
      const verdicts = events.map((event): Verdict => {
        const behind = failed.get(event.aggregate.id)
        if (behind) return behind
        const give = (error: unknown, retryable: boolean): Verdict => {
          const verdict: Verdict = { kind: 'failed', error, retryable }
          failed.set(event.aggregate.id, verdict)
          return verdict
        }
        try {
          const json = cloudEventJson(event)
          const bytes = Buffer.byteLength(json)
          if (bytes > judged.maxBytes) {
            return give(
              new Error(`the event has ${bytes} bytes; Redis accepts at most ${judged.maxBytes} (proto-max-bulk-len)`),
              false,
            )
          }
          commands.push(entryOf(event, json))
          return SENT
        } catch (error) {
          // Only this event and the later events of its aggregate fail.
          return give(error, true)
        }
      })
      if (commands.length === 0) return verdicts
      signal.throwIfAborted()
      // The client would queue the commands, and send them after another relay has sent the same events.
      if (!redis.isReady()) throw new Error('the connection to Redis is not ready')
      // All entries or none, so that no entry overtakes a failed one. An error here is an error of all entries.
      if (replicas > 0) await replicated(commands)
      else await redis.transaction(commands)
      return verdicts
    },
  }
}

function checked(options: RedisSinkOptions): { stream: string; trim: string[]; replicas: number; waitMs: number } {
  refuseUnknown(options, OPTIONS, 'redisSink()')
  const { stream, maxLength, waitFor } = options ?? {}
  if (typeof stream !== 'string' || stream === '') throw invalid('redisSink({ stream }) needs the key of a stream')
  if (maxLength !== undefined && !(Number.isInteger(maxLength) && maxLength > 0)) {
    throw invalid('maxLength must be a whole number above 0')
  }
  const replicas = waitFor?.replicas ?? 0
  if (waitFor && !(Number.isInteger(replicas) && replicas > 0)) {
    throw invalid('waitFor.replicas must be a whole number above 0')
  }
  const limits = { option: 'waitFor.timeout', min: 1, max: REDIS_WAIT_MS_MAX }
  const waitMs = milliseconds(waitFor?.timeout, REDIS_WAIT_MS_DEFAULT, limits)
  return { stream, replicas, waitMs, trim: maxLength === undefined ? [] : ['MAXLEN', '~', String(maxLength)] }
}
