import { isOnceError } from '../../errors.ts'
import { isFinal } from '../../operation/final.ts'
import type { Value } from './handlers.ts'
import type { Result } from './trace.ts'

const TEXT_MAX = 300

/** The result of a call in the form of the trace. Refusals are answers too. */
export async function resultOf(call: () => Promise<unknown>): Promise<Result> {
  try {
    const value = (await call()) as Value
    return { is: 'value', exec: value.exec, text: textOf(value) }
  } catch (error) {
    return failureOf(error)
  }
}

export function failureOf(error: unknown): Result {
  if (isFinal(error)) {
    const { exec } = error.body as Value
    return { is: 'refusal', exec, text: JSON.stringify(error.body) }
  }
  const { code = 'error', message } = error as Error & { code?: string }
  return { is: 'error', code: isOnceError(error) ? error.code : code, message: message.slice(0, TEXT_MAX) }
}

export function textOf({ pad, ...value }: Value): string {
  return JSON.stringify(pad === undefined ? value : { ...value, pad: pad.length })
}
