import { isOnceError, onceError, type OnceError } from '../errors.ts'
import { REPORT_EVERY_MS } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'
import { readable } from '../platform/readable-error.ts'

/** The framework's logger. Absent: `console.error`. */
export type Log = (line: string, error: unknown) => void
export type OnError<Req> = (error: unknown, request: Req) => void | Promise<void>

/** The request that an error is about. */
export interface About<Req> {
  readonly request: Req
  readonly pattern: string
  readonly log?: Log | undefined
}

/**
 * Reports errors of this package with status 500 or higher to the operator, because the client does not see their
 * cause.
 */
export class Report<Req> {
  readonly #onError: OnError<Req> | undefined
  readonly #clock: Clock
  /** When each code was last logged, and how many errors came since. */
  readonly #logged = new Map<string, { at: number; since: number }>()

  constructor(onError: OnError<Req> | undefined, clock: Clock) {
    this.#onError = onError
    this.#clock = clock
  }

  tell(error: unknown, about: About<Req>): void {
    void this.#tell(error, about)
  }

  async #tell(error: unknown, { request, pattern, log }: About<Req>): Promise<void> {
    try {
      if (this.#onError) await this.#onError(error, request)
      else if (isOnceError(error)) this.#log(error, pattern, log)
      else console.error(error)
    } catch {
      // An error of `onError` or of the logger must not change the answer or end the process.
    }
  }

  /** During an outage, errors are counted, and not logged one by one. */
  #log(error: OnceError, pattern: string, log: Log = console.error): void {
    const now = this.#clock.now()
    const last = this.#logged.get(error.code)
    if (last && now - last.at < REPORT_EVERY_MS) {
      last.since++
      return
    }
    const more = last && last.since > 0 ? ` (and ${last.since} more since)` : ''
    this.#logged.set(error.code, { at: now, since: 0 })
    const told = withoutQuotes(error)
    // The logged error says what happened.
    log(`effectively-once: ${pattern} was answered ${told.status}${more}`, told)
  }
}

/**
 * Uses only our own words. A cause may quote the body, the key or the scope, such as a row that a constraint refused.
 * The message of a schema may quote the data of an event.
 */
function withoutQuotes(error: OnceError): OnceError {
  const { code, message, stack } = error
  const isQuoting = code === 'ONCE_EVENT_INVALID'
  const told = onceError(code, isQuoting ? {} : { detail: `${message.slice(code.length + 1)}${causeOf(error)}` })
  const frames = String(stack)
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
  told.stack = [`${told.name}: ${told.message}`, ...frames].join('\n')
  return told
}

/** Only the code of the cause, such as an SQL code. */
function causeOf({ cause }: OnceError): string {
  const code = (readable(cause) as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && /^\w{1,40}$/.test(code) ? ` (${code})` : ''
}
