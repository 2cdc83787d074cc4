import type { decide } from '../../../lifecycle/decide.ts'
import type { Work } from '../../../store/memory/database/connection.ts'
import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import type { Statements } from '../../../store/memory/statements/index.ts'
import type { Company } from '../company.ts'
import { SOUND } from '../flaw.ts'
import type { Flaw } from '../process.ts'
import type { Weather } from '../weather.ts'

/** A bug somebody could write. A simulation that does not notice it proves nothing. */
export interface Mutant extends Wanted {
  readonly name: string
  /** The invariant it breaks, or the finding of the protocol that warns of it. */
  readonly of: string
  readonly flaw: Flaw
}

/** The worlds in which a mutant is hunted. */
export interface Wanted {
  /** Only a world with relays can show it. */
  readonly relays?: boolean
  /** Only a world with consumers can. */
  readonly consumers?: boolean
  /** Only a world with several tenants can. */
  readonly scopes?: boolean
  /** Only a world with two consumers that look alike can. */
  readonly readers?: boolean
  /** Only a world where dead letters are redriven can. */
  readonly redrives?: boolean
  /** Only a world where parked events are released can. */
  readonly releases?: boolean
  /** Only a world in which messages are given up while they run can. */
  readonly rivals?: boolean
  /** Only a world in which operations meet others can. */
  readonly company?: Company
  /** Only a world with this weather can. */
  readonly weather?: Weather
}

/** Wrong inside the database. */
export function statement(of: string, name: string, wrong: Partial<Statements>, decision?: typeof decide): Mutant {
  return {
    name,
    of,
    flaw: { ...SOUND, statements: { ...STATEMENTS, ...wrong }, ...(decision && { decide: decision }) },
  }
}

/** Wrong in the decision about a key. */
export function decision(of: string, name: string, wrong: typeof decide): Mutant {
  return { name, of, flaw: { ...SOUND, decide: wrong } }
}

/** Wrong between the database and the operation. */
export function client(of: string, name: string, wrap: Flaw['wrap']): Mutant {
  return { name, of, flaw: { ...SOUND, wrap } }
}

/** Whatever token the record has now. */
export function newestToken({ database, tx }: Work, id: string): string {
  return String(database.records.seen(id, tx)?.token ?? 0)
}
