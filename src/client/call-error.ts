import { CodedError, type CodedErrorOptions } from '../coded-error.ts'
import type { CallResponse } from './types.ts'

export interface CallErrorOptions extends CodedErrorOptions {
  /** The name and key of the call. */
  readonly call?: { readonly name: string; readonly key: string }
  /** The last answer, if there was one. */
  readonly response?: CallResponse | undefined
}

/** An error of the client, or an error of the server about the key. */
export class CallError extends CodedError {
  declare readonly call: { readonly name: string; readonly key: string } | undefined
  declare readonly response: CallResponse | undefined

  constructor(code: string, status: number, message: string, options: CallErrorOptions = {}) {
    super(code, [status, status === 503, message], options)
    const { call, response } = options
    this.call = call && { name: call.name, key: call.key }
    this.response = response
  }
}

/** The error of a call that was not sent. */
export function notSent(code: string, status: number, why: string, options?: CallErrorOptions): CallError {
  return new CallError(code, status, `${why}; nothing was sent`, options)
}

/** Whether this is an error of this package, with this code if one is given. Works across copies of the package. */
export function isCallError(error: unknown, code?: string): error is CallError {
  const thrown = error as Partial<CallError> | null | undefined
  return thrown?.name === 'OnceError' && (code ?? thrown.code) === thrown.code
}
