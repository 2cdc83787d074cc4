import { ERROR_CAUSES_MAX } from '../limits.ts'

/** The properties of an error that the library reads. */
const ASKED = ['name', 'message', 'stack', 'code', 'status', 'meta', 'originalCode', 'driverAdapterError', 'errcode']

/**
 * Returns the thrown value, or a readable copy of it. A getter may throw and a proxy may be revoked; then no later code
 * could decide who is at fault.
 */
export function readable(error: unknown): unknown {
  try {
    let at = error
    for (let depth = 0; typeof at === 'object' && at !== null && depth < ERROR_CAUSES_MAX; depth++) {
      for (const name of ASKED) void (at as Record<string, unknown>)[name]
      void ('syscall' in at)
      void (at instanceof Error)
      at = (at as { cause?: unknown }).cause
    }
    return error
  } catch {
    return copyOf(error as Partial<Error>)
  }
}

function copyOf(error: Partial<Error>): Error {
  const copy = new Error('the error cannot be read')
  for (const name of ['name', 'message', 'stack'] as const) {
    try {
      Object.defineProperty(copy, name, { value: textOf(error[name]) })
    } catch {
      // The property keeps its default.
    }
  }
  return copy
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? textOf(error.message) : textOf(error)
}

/**
 * The first line of each message, with those of its causes: clients say only `fetch failed`, and the cause says why.
 */
export function messagesOf(error: unknown): string {
  const texts: string[] = []
  let at = readable(error)
  for (let depth = 0; at !== undefined && at !== null && depth < ERROR_CAUSES_MAX; depth++) {
    const [line = ''] = messageOf(at).split('\n', 1)
    const text = line.replace(/[.:]$/, '')
    if (text !== '' && !texts.some((other) => other.includes(text))) texts.push(text)
    const { cause, errors } = at as { cause?: unknown; errors?: unknown }
    at = Array.isArray(errors) ? errors[0] : cause
  }
  return texts.join(': ')
}

/** Any value as text, because a message need not be a string. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  try {
    return typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? String(value))
  } catch {
    return Object.prototype.toString.call(value)
  }
}
