import { onceError } from '../../errors.ts'
import { systemClock } from '../../platform/clock.ts'
import type { KeyedRedis } from '../../platform/keyed-redis.ts'

/** A server may be replaced by another one, or be given another policy. */
const LOOK_AGAIN_MS = 30_000

/**
 * Refuses servers that may drop a claim or an answer when their memory is full. The policy is read with INFO, because
 * managed servers forbid CONFIG.
 */
export class EvictionGuard {
  readonly #redis: KeyedRedis
  #looking: Promise<void> | null = null
  #lookedAt = -Infinity

  constructor(redis: KeyedRedis) {
    this.#redis = redis
  }

  /** Undefined: the servers were all right a short time ago. From time to time they are looked at beside a claim. */
  check(): Promise<void> | undefined {
    const first = this.#lookedAt === -Infinity
    if (systemClock.now() - this.#lookedAt > LOOK_AGAIN_MS) this.#look()
    return first ? (this.#looking ?? undefined) : undefined
  }

  #look(): void {
    this.#looking ??= this.#redis
      .everywhere(['INFO', 'memory'])
      .then((replies) => {
        for (const reply of replies) refuseEviction(String(reply))
        this.#lookedAt = systemClock.now()
      })
      .catch((error: unknown) => {
        this.#lookedAt = -Infinity
        throw error
      })
      .finally(() => (this.#looking = null))
    // A look beside a claim has no caller who hears of its error. The next claim looks again, and waits.
    this.#looking.catch(() => {})
  }
}

function refuseEviction(info: string): void {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'unknown'
  if (policy === 'noeviction') return
  const detail = `The redis store needs maxmemory-policy noeviction. This server's policy is ${policy}, which can drop a running claim`
  throw onceError('ONCE_UNSUPPORTED', { detail })
}
