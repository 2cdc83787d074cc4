import type { Enclosing, EnclosingContext } from '../operation/enclosing.ts'
import type { Session } from '../store/store.ts'
import type { Finding } from './warn.ts'

/** A query of a running operation that reached the pool instead of its transaction. */
export interface Bypass {
  readonly route: string
  readonly place: string
  /** 'queried the pool (src/charges.ts:41)' */
  readonly action: string
}

/** The findings of the checks for one watched operation. */
export interface Watching {
  bypassed(bypass: Bypass): void
  /** Fails the operation in mode 'throw': at its end, or at once if the operation might never end. */
  grave(finding: Finding, when: 'now' | 'atEnd'): void
}

/** The operation whose transaction is open around the current call. */
export interface GuardedOperation {
  readonly watched: Watching
  /** The route of the innermost operation, because a nested operation has its own route. */
  readonly route: string
  /** The transaction is the final one of a leased operation. */
  readonly leased: boolean
}

/** The operations that the guard watches, by the async context of a call. */
export class RunningOperations {
  readonly #enclosing: EnclosingContext
  readonly #bySession = new Map<Session<unknown>, Watching>()

  constructor(enclosing: EnclosingContext) {
    this.#enclosing = enclosing
  }

  get size(): number {
    return this.#bySession.size
  }

  add(session: Session<unknown>, watched: Watching): void {
    this.#bySession.set(session, watched)
  }

  remove(session: Session<unknown>): void {
    this.#bySession.delete(session)
  }

  /** Undefined outside operations, in a leased handler and its steps, and after the operation has ended. */
  current(): GuardedOperation | undefined {
    const innermost = this.#enclosing.get()
    for (let at = innermost; at?.session; at = at.outer) {
      const watched = this.#bySession.get(at.session)
      if (watched) return { watched, route: innermost?.route ?? at.route, leased: isLeased(at) }
    }
    return undefined
  }
}

/** Whether this is the `commit` of a leased operation: then the operation encloses itself. */
function isLeased(at: Enclosing): boolean {
  let outermost = at
  while (outermost.outer?.session) outermost = outermost.outer
  return outermost.outer?.id === outermost.id
}
