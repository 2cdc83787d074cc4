import { isOnceError } from '../../errors.ts'
import { isFinal } from '../../operation/final.ts'

/** A client as it should be: one key per operation, and the same key again until it knows the outcome. */
export interface SimulatedClient {
  retry<T>(call: (key: string) => Promise<T>): Promise<T>
}

const TRIES_MAX = 20
const PAUSE_MS_MAX = 25
/** Statuses of an HTTP answer that say: not decided, come again. */
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
    for (let tries = 1; ; tries++) {
      const last = tries >= TRIES_MAX
      try {
        const value = await call(key)
        if (last || !isUndecided(value)) return value
      } catch (error) {
        if (last || !isWorthRetrying(error)) throw error
      }
      await this.between()
      await new Promise((resolve) => setTimeout(resolve, Math.min(tries * 2, PAUSE_MS_MAX)))
    }
  }
}

/** A Response, or anything with a status: who posts over HTTP gets no exception. */
function isUndecided(value: unknown): boolean {
  const status = (value as { status?: unknown; statusCode?: unknown } | null | undefined)?.status
  return typeof status === 'number' && UNDECIDED.has(status)
}

function isWorthRetrying(error: unknown): boolean {
  if (isFinal(error)) return false
  return isOnceError(error) ? error.retryable : true
}
