/** So many are told: the first ones show the cause, the counts tell how many there are. */
const TOLD_MAX = 20
const FAULT_BEFORE_MS = 20_000
const FAULT_AFTER_MS = 2_000

/** Where an event was seen. Times are those of the one wall clock of the machine. */
export interface Sighting {
  readonly event: string
  readonly aggregate: string
  readonly n: number
  /** Its place among all that were seen there. */
  readonly place: number
  readonly at: number
  /** Who did it, or how it was answered. */
  readonly by: string
}

export interface Violation {
  readonly kind: 'lost' | 'twice' | 'orderBreak' | 'stuck' | 'silent'
  /** The table or the sink in which it shows, or the process. */
  readonly where: string
  readonly event?: string
  readonly aggregate?: string
  readonly n?: number
  /** When it shows. */
  readonly at: number
  /** What was seen of it and of its neighbours, or why it is one. */
  readonly seen: readonly string[]
}

/** A violation as it is told: with the faults that were there at the time. */
export type NamedViolation = Omit<Violation, 'at'> & { readonly at: string; readonly faults: readonly string[] }

interface Fault {
  readonly kind: string
  readonly from: number
  until: number
  on: string
}

/** When which fault was there, and on whom. */
export class Journal {
  readonly #faults: Fault[] = []

  /** Answers with what is called when it is over. */
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
