import type { Clock } from '../platform/clock.ts'
import type { Finding } from './warn.ts'

const CHURN_KEYS = 3
export const CHURN_WINDOW_MS = 10_000
export const CHURN_ENTRIES_MAX = 1_000

interface Seen {
  readonly route: string
  readonly scope: string
  readonly key: string
  readonly claim: { readonly fingerprint: string }
}

/** Finds clients that make a new key for every retry, so that each retry is a new operation. */
export class KeyChurn {
  readonly #clock: Clock
  /** For each request: its newest keys, and when each was last seen. The oldest request comes first. */
  readonly #requests = new Map<string, Map<string, number>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How many different requests are remembered. */
  get size(): number {
    return this.#requests.size
  }

  seen({ route, scope, key, claim }: Seen): Finding | null {
    const now = this.#clock.now()
    const request = JSON.stringify([route, scope, claim.fingerprint])
    const keys = this.#requests.get(request) ?? new Map<string, number>()
    for (const [older, at] of keys) if (now - at > CHURN_WINDOW_MS) keys.delete(older)
    keys.set(key, now)
    this.#requests.delete(request)
    if (keys.size >= CHURN_KEYS) return churnOf(route)
    this.#requests.set(request, keys)
    if (this.#requests.size > CHURN_ENTRIES_MAX) this.#requests.delete(this.#requests.keys().next().value ?? '')
    return null
  }

  clear(): void {
    this.#requests.clear()
  }
}

function churnOf(route: string): Finding {
  return {
    code: 'ONCE_KEY_CHURN',
    route,
    place: '',
    line: `${route} got ${CHURN_KEYS} equal requests with ${CHURN_KEYS} keys within ${CHURN_WINDOW_MS / 1_000} s: is the client making a new key per retry?`,
  }
}
