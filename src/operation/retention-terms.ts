import { goneForMs, replayForMs, type Settings } from './settings.ts'
import type { RunOptions } from './types.ts'

/** How long a key is remembered, as clients are told. */
export interface RetentionTerms {
  /** Seconds during which a retry gets the stored answer. */
  readonly replayFor: number
  /** Seconds after `replayFor` during which a retry is refused. With `expired: 'rerun'` it runs again. */
  readonly goneFor: number
  readonly afterReplay: 'gone' | 'rerun'
}

export type RetentionOptions = Pick<RunOptions<undefined>, 'replayFor' | 'goneFor' | 'expired'>

/** The part of an instance that is used here. */
interface Promising {
  readonly settings: Settings
  promised: RetentionTerms | null
}

/** Adds a route's terms to those of its instance, and returns what all routes so far promise. */
export function promiseTerms(core: Promising, { replayFor, goneFor, expired }: RetentionOptions): RetentionTerms {
  const { settings } = core
  const own: RetentionTerms = {
    replayFor: Math.floor(replayForMs(replayFor, settings.replayForMs) / 1000),
    goneFor: Math.floor(goneForMs(goneFor, settings.goneForMs) / 1000),
    afterReplay: expired ?? settings.expired,
  }
  return (core.promised = core.promised ? shorter(own, core.promised) : own)
}

/** What both terms promise: answers for the shorter `replayFor`, and no second run before the shorter memory ends. */
function shorter(a: RetentionTerms, b: RetentionTerms): RetentionTerms {
  const first = memoryOf(a) < memoryOf(b) ? a : b
  const replayFor = Math.min(a.replayFor, b.replayFor)
  if (first.replayFor === replayFor) return first
  return { replayFor, goneFor: memoryOf(first) - replayFor, afterReplay: 'gone' }
}

/** Seconds until the key is new again. */
function memoryOf({ replayFor, goneFor, afterReplay }: RetentionTerms): number {
  return afterReplay === 'gone' ? replayFor + goneFor : replayFor
}
