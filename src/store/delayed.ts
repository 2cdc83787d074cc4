import { readNotBefore } from './not-before.ts'
import { isOrdered } from './ordered.ts'
import type { Cancellation } from './cancellation.ts'

export interface Delay {
  /** ISO 8601. Null: not a time, or a time so long ago that the event was never held. */
  readonly notBefore: string | null
}

/** Reads the delay of an event from its headers, or says why the event cannot be cancelled. */
export function delayOf(headers: unknown): Delay | Exclude<Cancellation, 'cancelled' | 'due'> {
  if (typeof headers !== 'string' || !isDelayed({ headers })) return 'unknown'
  const { notbefore } = JSON.parse(headers) as { readonly notbefore?: unknown }
  if (notbefore === undefined) return 'unknown'
  if (isOrdered({ headers })) return 'ordered'
  return { notBefore: (typeof notbefore === 'string' ? readNotBefore(notbefore) : undefined) ?? null }
}

export function isDelayed({ headers }: { readonly headers: string | null }): boolean {
  return headers?.includes('"notbefore"') === true
}
