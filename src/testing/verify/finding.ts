import { hintAt } from '../hint.ts'
import type { Boundary, Failure, Kill, Side } from './boundary.ts'

export interface Finding {
  /** Null: no process died. */
  readonly kill: Kill | null
  /** The calls were made twice at once. */
  readonly doubled: boolean
  readonly failure: Failure
  readonly boundaries: readonly Boundary[]
}

/** A broken promise: the one fault that shows it, and the error of `act` or `check`. */
export class VerificationError extends Error {
  override readonly name: string = 'VerificationError'
  /** The boundary, such as `commit`. Null: no process died. */
  readonly boundary: string | null
  readonly side: Side | null
  /** What happened up to the death, in order. */
  readonly steps: readonly string[]
  /** The message of the error that `act` or `check` threw. */
  readonly reason: string

  constructor({ kill, doubled, failure, boundaries }: Finding) {
    const number = kill ? boundaries.findIndex(({ label, nth }) => label === kill.label && nth === kill.nth) + 1 : 0
    const schedule = scheduleOf({ kill, doubled }, number, boundaries.length)
    super(`${schedule}: ${failure.of} failed: ${failure.message}${hintAt(kill ? [kill.label] : [])}`)
    this.boundary = kill?.label ?? null
    this.side = kill?.side ?? null
    this.steps = boundaries.slice(0, number).map(({ label }) => label)
    this.reason = failure.message
  }
}

function scheduleOf({ kill, doubled }: Pick<Finding, 'kill' | 'doubled'>, number: number, of: number): string {
  if (doubled) return 'two calls at once under the same key'
  if (!kill) return 'without any crash'
  return `killed ${kill.side} boundary ${number} of ${of} (${kill.label}), then retried with the same key`
}
