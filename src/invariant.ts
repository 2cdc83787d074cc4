import { onceError } from './errors.ts'

/** An assertion that stays on in production: a broken assumption must stop an operation, not pass through it. */
export function invariant(condition: unknown, detail: string): asserts condition {
  if (!condition) throw onceError('ONCE_INVARIANT', { detail })
}
