import type { Made, Place, Tx } from '../bed.ts'
import type { Program, Statement } from '../program.ts'
import type { Trace } from '../trace.ts'

export interface Play {
  readonly program: Program
  readonly place: Place
  readonly trace: Trace
  /** Nobody else's: the scope of all its keys, and the mark of all its rows. */
  readonly name: string
  readonly lease: '30s' | '1s'
}

/** Where a statement stands. */
export interface Here {
  readonly exec: number | null
  readonly own: number | null
  readonly tx?: Tx
  publish?(type: 'made', data: Made): Promise<string>
  readonly step?: Tx
  /** 1 for the first execution of this operation. */
  readonly attempt: number
  readonly calm: boolean
  /** When the operation at hand has ended. */
  readonly ended: Promise<unknown>
  /** What must end before the user's own transaction may. */
  readonly pending: Set<Promise<unknown>> | null
}

export const NEVER_ENDED: Promise<unknown> = Promise.resolve()
export const MAIN: Here = { exec: null, own: null, attempt: 1, calm: false, ended: NEVER_ENDED, pending: null }

/** Plays a list of statements. */
export type PlayAll = (statements: readonly Statement[], here: Here) => Promise<void>

/** How often something was executed, with this time. */
export class Attempts {
  readonly #counts = new Map<string, number>()

  next(what: string): number {
    const attempt = (this.#counts.get(what) ?? 0) + 1
    this.#counts.set(what, attempt)
    return attempt
  }
}
