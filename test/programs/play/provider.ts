import { keyOf, namespaceOf, type Program, type StepStatement } from '../program.ts'
import { Thrown } from './told.ts'
import type { Trace } from '../trace.ts'
import { turns } from './turns.ts'

/** The outside world: it takes its time, may fail before or after it did what it was asked for, and remembers what it did. */
export class Provider {
  readonly #trace: Trace
  readonly #program: Program

  constructor(trace: Trace, program: Program) {
    this.#trace = trace
    this.#program = program
  }

  async call(
    statement: StepStatement,
    of: { readonly step: number; readonly exec: number; readonly key: string; readonly fails: boolean },
  ): Promise<unknown> {
    const outside = this.#trace.add({ is: 'outside', step: of.step, key: of.key })
    const fault = of.fails ? statement.fault : null
    await turns(statement.turns)
    if (fault === 'before') throw new Thrown(of.exec)
    this.#trace.add({ is: 'charged', outside })
    await turns(1)
    if (fault === 'after') throw new Thrown(of.exec)
    return fault === 'unserialisable' ? { by: outside, id: 1n } : { by: outside }
  }

  /** Whether this step of this operation was ever done: the truth, as far as it has happened. */
  done(step: number): { readonly by: number } | undefined {
    const { entries } = this.#trace
    const wanted = this.#nameOf(step)
    for (const entry of entries) {
      if (entry.is !== 'charged') continue
      const outside = entries[entry.outside]
      if (outside?.is === 'outside' && this.#nameOf(outside.step) === wanted) return { by: entry.outside }
    }
    return undefined
  }

  #nameOf(step: number): string | undefined {
    const { entries } = this.#trace
    const made = entries[step]
    const exec = made?.is === 'step' ? entries[made.exec] : undefined
    if (made?.is !== 'step' || exec?.is !== 'exec') return undefined
    if (exec.message) return `message ${exec.message.consumer}.${exec.message.id}/${made.name}`
    const call = exec.call === null ? undefined : entries[exec.call]
    if (call?.is !== 'call') return undefined
    return `${namespaceOf(call.via)}/${keyOf(this.#program, call.op)}/${made.name}`
  }
}
