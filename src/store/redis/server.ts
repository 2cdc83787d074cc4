import { onceError } from '../../errors.ts'
import type { Clock } from '../../platform/clock.ts'
import type { KeyedRedis } from '../../platform/keyed-redis.ts'

/** A server may be replaced by another one, or be given another policy. */
const LOOK_AGAIN_MS = 30_000
/** So soon if a server did not answer. */
const LOOK_SOON_MS = 1_000

const VERSION_MIN = 7

/**
 * Refuses servers that are too old for the scripts, and servers that may drop a claim or an answer when their memory is
 * full. Both are read with INFO, because managed servers forbid CONFIG.
 */
export class ServerGuard {
  readonly #redis: KeyedRedis
  readonly #clock: Clock
  #looking: Promise<void> | null = null
  #lookAt = -Infinity

  constructor(redis: KeyedRedis, clock: Clock) {
    this.#redis = redis
    this.#clock = clock
  }

  /**
   * `key`: any key of the claim. Undefined: the servers were all right a short time ago. From time to time they are
   * looked at beside a claim.
   */
  check(key: string): Promise<void> | undefined {
    const first = this.#lookAt === -Infinity
    if (this.#clock.now() >= this.#lookAt) this.#look(first ? key : null)
    return first ? (this.#looking ?? undefined) : undefined
  }

  #look(key: string | null): void {
    this.#looking ??= this.#ask(key)
      .then((all) => {
        this.#lookAt = this.#clock.now() + (all ? LOOK_AGAIN_MS : LOOK_SOON_MS)
      })
      .catch((error: unknown) => {
        this.#lookAt = -Infinity
        throw error
      })
      .finally(() => (this.#looking = null))
    // A look beside a claim has no caller who hears of its error. The next claim looks again, and waits.
    this.#looking.catch(() => {})
  }

  /** Returns whether every server has answered. */
  async #ask(key: string | null): Promise<boolean> {
    // The client of a cluster knows the servers only after it has connected, which a command about a key waits for. If
    // the server of this key hangs, the claims on other servers go on.
    if (key !== null) await this.#redis.call(key, ['EXISTS', key]).catch(() => {})
    const replies = await this.#redis.everywhere(['INFO'])
    const known = replies.filter((reply) => reply !== null)
    for (const reply of known) refuse(String(reply))
    if (known.length === 0) throw new Error('no server has reported its version and its eviction policy')
    return known.length === replies.length
  }
}

function refuse(info: string): void {
  const field = (name: string): string | undefined => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1]
  const version = field('redis_version')
  // Every Valkey is new enough. It also tells the version of Redis that it began with.
  if (field('valkey_version') === undefined && !(Number.parseInt(version ?? '', 10) >= VERSION_MIN)) {
    const found = version === undefined ? 'an unknown version' : `Redis ${version}`
    const detail = `The redis store needs Redis ${VERSION_MIN} or later, or Valkey. This server is ${found}`
    throw onceError('ONCE_UNSUPPORTED', { detail })
  }
  const policy = field('maxmemory_policy') ?? 'unknown'
  if (policy === 'noeviction') return
  const detail = `The redis store needs maxmemory-policy noeviction. This server's policy is ${policy}, which can drop a running claim`
  throw onceError('ONCE_UNSUPPORTED', { detail })
}
