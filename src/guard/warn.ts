import { onceError, type OnceCode, type OnceError } from '../errors.ts'
import type { Observe } from '../observe/signal.ts'

/** A finding of the guard about one place of the program. */
export interface Finding {
  readonly code: OnceCode
  readonly route: string
  /** The place: a file and line, the first words of a query, or a host. Each code, route and place is reported once. */
  readonly place: string
  /** One line: route, place, remedy. */
  readonly line: string
}

/** The oldest findings are forgotten first. A program with more places gets some reports twice. */
export const TOLD_MAX = 1_000

/** Reports every finding once per route and place. */
export class Warner {
  readonly #observe: Observe
  readonly #told = new Set<string>()

  constructor(observe: Observe) {
    this.#observe = observe
  }

  /** How many reported findings are remembered. */
  get told(): number {
    return this.#told.size
  }

  /** Emits a process warning of one line, which `--trace-warnings` and `--no-warnings` control. */
  warn(finding: Finding): void {
    if (!this.#signal(finding)) return
    process.emitWarning(finding.line, { type: 'EffectivelyOnce', code: finding.code })
  }

  /** Returns the error that fails the operation, each time the finding occurs. */
  refuse(finding: Finding): OnceError {
    this.#signal(finding)
    return onceError(finding.code, { detail: finding.line })
  }

  #signal({ code, route, place, line }: Finding): boolean {
    const key = `${code}\n${route}\n${place}`
    if (this.#told.has(key)) return false
    // Remember the finding before the report, because an observer may do the same thing itself.
    this.#told.add(key)
    if (this.#told.size > TOLD_MAX) this.#told.delete(this.#told.values().next().value ?? '')
    this.#observe({ kind: 'guard', route, code, message: line })
    return true
  }
}
