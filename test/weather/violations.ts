/** The maximum number of violations to report. The first ones show the cause, and the counts show the extent. */
const TOLD_MAX = 20
const FAULT_BEFORE_MS = 20_000
const FAULT_AFTER_MS = 2_000

/** One place where an event was seen. All times come from the wall clock of this machine. */
export interface Sighting {
  readonly event: string
  readonly aggregate: string
  readonly n: number
  /** The position among all events seen there. */
  readonly place: number
  readonly at: number
  /** The process that did it, or the response to the call. */
  readonly by: string
}

export interface Violation {
  readonly kind: 'lost' | 'twice' | 'orderBreak' | 'stuck' | 'silent'
  /** The table, sink or process in which the violation shows. */
  readonly where: string
  readonly event?: string
  readonly aggregate?: string
  readonly n?: number
  /** The time of the violation. */
  readonly at: number
  /** What was seen of the event and its neighbours, or the reason for the violation. */
  readonly seen: readonly string[]
}

/** A violation as reported, with the faults that were active at that time. */
export type NamedViolation = Omit<Violation, 'at'> & { readonly at: string; readonly faults: readonly string[] }

interface Fault {
  readonly kind: string
  readonly from: number
  until: number
  on: string
}

/** Records which fault was active when, and on which process. */
export class Journal {
  readonly #faults: Fault[] = []

  /** Returns the function that ends the fault. */
  begin(kind: string): { on(name: string): void; end(): void } {
    const fault: Fault = { kind, from: Date.now(), until: Infinity, on: '' }
    this.#faults.push(fault)
    return {
      on: (name) => void (fault.on = ` on ${name}`),
      end: () => void (fault.until = Date.now()),
    }
  }

  near(at: number): string[] {
    return this.#faults
      .filter(({ from, until }) => from <= at + FAULT_AFTER_MS && until >= at - FAULT_BEFORE_MS)
      .map(({ kind, on, from, until }) => `${kind}${on} ${timeOf(from)}-${until === Infinity ? '' : timeOf(until)}`)
  }
}

export function named(violations: readonly Violation[], journal: Journal): NamedViolation[] {
  return violations
    .slice(0, TOLD_MAX)
    .map((violation) => ({ ...violation, at: timeOf(violation.at), faults: journal.near(violation.at) }))
}

export function lineOf({ kind, where, event, aggregate, n, at, seen, faults }: NamedViolation): string {
  const which = event === undefined ? '' : ` ${aggregate} n ${n} (${event})`
  const near = faults.length > 0 ? `; faults: ${faults.join(', ')}` : ''
  return `${kind} in ${where}${which} at ${at}: ${seen.join(', ')}${near}`
}

export function sightingLine({ event, n, place, at, by }: Sighting): string {
  return `n ${n} ${event.slice(0, 8)} #${place} ${timeOf(at)} ${by}`
}

export function timeOf(at: number): string {
  return new Date(at).toISOString().slice(11, 23)
}
