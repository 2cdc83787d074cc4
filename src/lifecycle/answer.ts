/**
 * The stored answer of one operation. `run` keeps JSON bytes under status 200; HTTP keeps status, allowed headers in
 * order, and the exact body bytes.
 */
export interface Answer {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** null: there was none, or it was too large to keep (then `kept` is false). */
  readonly body: Uint8Array | null
  /** false: done, but over the size cap: the record is unreplayable. */
  readonly kept: boolean
}

/** Statuses that say nothing final about the operation: it rolls back and the key is free again. */
const NOT_FINAL = new Set([401, 403, 408, 409, 423, 425, 429])

/** What a handler's status does to the record. */
export function fateOf(status: number): 'complete' | 'refuse' | 'release' {
  if (status >= 200 && status < 400) return 'complete'
  if (status >= 400 && status < 500 && !NOT_FINAL.has(status)) return 'refuse'
  return 'release'
}
