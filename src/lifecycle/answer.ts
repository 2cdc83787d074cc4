/**
 * The stored answer of one operation. `run` stores JSON bytes under status 200. HTTP stores the status, the allowed
 * headers in order, and the exact body bytes.
 */
export interface Answer {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** Null: there was no body, or it was too large to store (then `kept` is false). */
  readonly body: Uint8Array | null
  /** False: the operation completed, but its answer was too large to store, so the record is unreplayable. */
  readonly kept: boolean
}

/** Statuses that are not final: the operation is rolled back, and the key is free again. */
const NOT_FINAL = new Set([401, 403, 408, 409, 423, 425, 429])

/** What becomes of an operation, by the status of its answer. */
export function fateOf(status: number): 'complete' | 'refuse' | 'release' {
  if (status >= 200 && status < 400) return 'complete'
  if (status >= 400 && status < 500 && !NOT_FINAL.has(status)) return 'refuse'
  return 'release'
}
