import { isOnceError, onceError } from '../../errors.ts'
import { sleep, type Clock } from '../../platform/clock.ts'
import type { Random } from '../../platform/random.ts'
import type { KeyedRedis } from '../../platform/keyed-redis.ts'
import type { Script } from './scripts.ts'
import { Waits } from './waits.ts'

/** A script whose reply was lost, or that met a failover, is sent again for this long. */
const AGAIN_WITHIN_MS = 2_000
const PAUSE_MS = 50
/** The server refused the command, and will refuse it again. Any other error may be of a connection or a failover. */
const REFUSED = /^(OOM|NOREPLICAS|NOPERM|NOAUTH|WRONGTYPE|MISCONF|ERR|WRONGPASS)\b/
const MOVED = /^(MOVED|ASK)\b/

export interface Transition {
  readonly script: Script
  readonly id: string
  readonly args: readonly string[]
  /** The write waits for replicas, if the store asks for them. */
  readonly replicated?: boolean
}

export interface RedisParts {
  readonly prefix: string
  readonly replicas: number
  readonly clock: Clock
  readonly random: Random
}

/** Runs the scripts. Every one of them may be sent twice: it compares its token or its nonce. */
export class Transitions {
  readonly parts: RedisParts
  readonly waits: Waits
  readonly #redis: KeyedRedis

  constructor(redis: KeyedRedis, parts: RedisParts) {
    this.parts = parts
    this.waits = new Waits(parts.clock, () => redis.connections())
    this.#redis = redis
  }

  /** Braces stand only around our own id: a cluster places the key by it. */
  keyOf(id: string): string {
    return `${this.parts.prefix}:{${id}}`
  }

  /** Rejects with `ReplicasShort` if the write was made, and too few replicas have it. */
  run(of: Transition): Promise<unknown> {
    return this.#send(of, 'EVALSHA').catch((error: unknown) => this.#again(of, error))
  }

  async #again(of: Transition, error: unknown): Promise<unknown> {
    const { clock } = this.parts
    const until = clock.now() + AGAIN_WITHIN_MS
    for (let last = error; ;) {
      const isUnknown = messageOf(last).startsWith('NOSCRIPT')
      if (last instanceof ReplicasShort || clock.now() > until || REFUSED.test(messageOf(last))) throw last
      if (!isUnknown) await sleep(clock, PAUSE_MS)
      try {
        return await this.#send(of, isUnknown ? 'EVAL' : 'EVALSHA')
      } catch (next) {
        last = next
      }
    }
  }

  #send({ script, id, args, replicated }: Transition, how: 'EVALSHA' | 'EVAL'): Promise<unknown> {
    const key = this.keyOf(id)
    const command = [how, how === 'EVAL' ? script.text : script.sha, '1', key, ...args]
    if (!replicated || this.parts.replicas === 0) return this.#redis.call(key, command)
    return this.#replicated(key, command)
  }

  async #replicated(key: string, command: readonly string[]): Promise<unknown> {
    const { replicas } = this.parts
    const place = this.waits.enter()
    if (place !== true && !(await place)) {
      const reply = await this.#redis.call(key, command)
      throw new ReplicasShort(reply, 'too many writes wait for replicas')
    }
    const { withinMs } = this.waits
    try {
      const [reply, confirmed] = await this.#redis.together(key, [command, ['WAIT', `${replicas}`, `${withinMs}`]])
      const have = Number(confirmed)
      if (have >= replicas) return reply
      throw new ReplicasShort(reply, `${have} of ${replicas} replicas confirmed the write within ${withinMs} ms`)
    } catch (error) {
      // Clients follow a redirection of a single command only. By that they learn where the key is now.
      if (MOVED.test(messageOf(error))) await this.#redis.call(key, ['EXISTS', key])
      throw error
    } finally {
      this.waits.leave()
    }
  }
}

/** The write was made on the primary, and it is not known that enough replicas have it. */
export class ReplicasShort extends Error {
  readonly reply: unknown

  constructor(reply: unknown, message: string) {
    super(message)
    this.reply = reply
  }
}

/** `ONCE_COMMIT_UNKNOWN` for a write after an effect: the caller learns its fate by a retry. */
export function storeError(
  error: unknown,
  code: 'ONCE_STORE_UNAVAILABLE' | 'ONCE_COMMIT_UNKNOWN' = 'ONCE_STORE_UNAVAILABLE',
): Error {
  if (isOnceError(error)) return error
  return onceError(code, { detail: `The redis store: ${messageOf(error)}`, cause: error })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
