import { isOnceError } from '../../errors.ts'
import { isFinal } from '../../operation/final.ts'
import { sleep, systemClock } from '../../platform/clock.ts'

/** A correct client: it uses one key per operation and retries with that key until it knows the outcome. */
export interface SimulatedClient {
  retry<T>(call: (key: string) => Promise<T>): Promise<T>
}

const TRIES_MAX = 20
const PAUSE_MS_MAX = 25
/** The HTTP statuses that leave the outcome open, so the client must retry. */
const UNDECIDED = new Set([408, 409, 425, 429, 500, 502, 503, 504])

export class Client implements SimulatedClient {
  private readonly name: string
  private readonly between: () => Promise<void>
  private operations = 0

  constructor(name: string, between: () => Promise<void>) {
    this.name = name
    this.between = between
  }

  async retry<T>(call: (key: string) => Promise<T>): Promise<T> {
    const key = `${this.name}-${++this.operations}`
    return untilDecided(() => call(key), { triesMax: TRIES_MAX, pauseMsMax: PAUSE_MS_MAX, between: this.between })
  }
}

export interface Persistence {
  readonly triesMax: number
  readonly pauseMsMax: number
  between(): Promise<void>
}

/** Calls again until the outcome is known, or the tries are used up. */
export async function untilDecided<T>(call: () => Promise<T>, persistence: Persistence): Promise<T> {
  const { triesMax, pauseMsMax, between } = persistence
  for (let tries = 1; ; tries++) {
    const isLast = tries >= triesMax
    try {
      const value = await call()
      if (isLast || !isUndecided(value)) return value
    } catch (error) {
      if (isLast || !isWorthRetrying(error)) throw error
    }
    await between()
    await sleep(systemClock, Math.min(tries * 2, pauseMsMax))
  }
}

/** Checks a Response, or any value with a status: an HTTP client reports these errors without an exception. */
function isUndecided(value: unknown): boolean {
  const status = (value as { status?: unknown; statusCode?: unknown } | null | undefined)?.status
  return typeof status === 'number' && UNDECIDED.has(status)
}

function isWorthRetrying(error: unknown): boolean {
  if (isFinal(error)) return false
  return isOnceError(error) ? error.retryable : true
}
