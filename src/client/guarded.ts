import type { Clock } from '../platform/clock.ts'
import { withinTime } from './attempt.ts'
import { notSent } from './call-error.ts'

type Guarded = <T>(work: () => Promise<T>, undo?: () => Promise<boolean>) => Promise<T>

/**
 * Runs work of the storage. A storage that hangs ends like one that fails. Its caller is told that nothing was sent, so a
 * change that is made all the same, or later, is undone. Otherwise a resume would send the call.
 */
export function guardedBy(clock: Clock, withinMs: number): Guarded {
  return async <T>(work: () => Promise<T>, undo?: () => Promise<boolean>) => {
    let working: Promise<T> | undefined
    try {
      return await withinTime(clock, withinMs, null, async () => (working = work()))
    } catch (cause) {
      working?.then(undo, undo).catch(() => {})
      throw notSent('ONCE_STORAGE_FAILED', 503, 'the storage failed', { cause })
    }
  }
}
