/**
 * The class of every error, without the table of the messages (src/errors.ts). The client for browsers uses only this
 * file, because the table alone would fill half of its size limit.
 */

export type ErrorRow = readonly [status: number, retryable: boolean, message: string]

export interface CodedErrorOptions {
  /** A more specific message, which replaces the message of the table. */
  detail?: string
  cause?: unknown
  retryAfterMs?: number
}

export class CodedError extends Error {
  override readonly name: string = 'OnceError'
  declare readonly code: string
  declare readonly status: number
  declare readonly retryable: boolean
  declare readonly retryAfterMs: number | undefined

  constructor(code: string, [status, retryable, message]: ErrorRow, options: CodedErrorOptions = {}) {
    super(`${code} ${options.detail ?? message}`, options.cause === undefined ? undefined : options)
    this.code = code
    this.status = status
    this.retryable = retryable
    this.retryAfterMs = options.retryAfterMs
  }
}
