import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { Final } from './final.ts'

/** What `run` stores of a handler's result: JSON bytes, or nothing for undefined. */
export function answerOfValue(value: unknown): Answer {
  return { status: 200, headers: [], body: bytesOf(value), kept: true }
}

/** The same for a result that may be a promise. */
export function answerOfResult(made: unknown): Answer | Promise<Answer> {
  const later = typeof (made as PromiseLike<unknown> | null | undefined)?.then === 'function'
  return later ? Promise.resolve(made).then(answerOfValue) : answerOfValue(made)
}

export function answerOfFinal(refusal: Final): Answer {
  return { status: refusal.status, headers: refusal.headers, body: bytesOf(refusal.body), kept: true }
}

/** Every caller gets the decoded record, even the first one. A stored refusal is thrown again. */
export function valueOf(answer: Answer): unknown {
  const value = answer.body === null ? undefined : (JSON.parse(textOf(answer.body)) as unknown)
  if (answer.status >= 400) throw new Final({ status: answer.status, headers: answer.headers, body: value })
  return value
}

/** JSON text of a step's result or a sealed input; 'null' for undefined. */
export function jsonOf(value: unknown, what: string): string {
  return stringify(value, what) ?? 'null'
}

function bytesOf(value: unknown): Uint8Array | null {
  const json = stringify(value, 'the result')
  return json === undefined ? null : Buffer.from(json)
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString()
}

function stringify(value: unknown, what: string): string | undefined {
  try {
    return JSON.stringify(value)
  } catch (cause) {
    throw onceError('ONCE_ANSWER_INVALID', { detail: `${what} cannot be written as JSON`, cause })
  }
}
