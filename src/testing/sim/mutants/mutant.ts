import type { decide } from '../../../lifecycle/decide.ts'
import type { Work } from '../../../store/memory/database/connection.ts'
import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import type { Statements } from '../../../store/memory/statements/index.ts'
import type { Company } from '../company.ts'
import { SOUND } from '../flaw.ts'
import type { Flaw } from '../process.ts'
import type { Weather } from '../weather.ts'

/** A realistic bug. A simulation that does not detect it proves nothing. */
export interface Mutant extends Wanted {
  readonly name: string
  /** The invariant that the mutant violates, or the finding of the protocol that warns of it. */
  readonly of: string
  readonly flaw: Flaw
}

/** The kind of world in which a mutant is hunted. */
export interface Wanted {
  /** Only a world with relays can reveal the mutant. */
  readonly relays?: boolean
  /** Only a world with consumers can reveal the mutant. */
  readonly consumers?: boolean
  /** Only a world with several tenants can reveal the mutant. */
  readonly scopes?: boolean
  /** Only a world with two consumers of similar names can reveal the mutant. */
  readonly readers?: boolean
  /** Only a world with redrives can reveal the mutant. */
  readonly redrives?: boolean
  /** Only a world with releases of parked events can reveal the mutant. */
  readonly releases?: boolean
  /** Only a world in which running messages are parked elsewhere can reveal the mutant. */
  readonly rivals?: boolean
  /** Only a world with this company can reveal the mutant. */
  readonly company?: Company
  /** Only a world with a shared cache can reveal the mutant. */
  readonly tier?: boolean
  /** Only a world with this weather can reveal the mutant. */
  readonly weather?: Weather
}

/** A defect inside the database. */
export function statement(of: string, name: string, wrong: Partial<Statements>, decision?: typeof decide): Mutant {
  return {
    name,
    of,
    flaw: { ...SOUND, statements: { ...STATEMENTS, ...wrong }, ...(decision && { decide: decision }) },
  }
}

/** A defect in the decision about a key. */
export function decision(of: string, name: string, wrong: typeof decide): Mutant {
  return { name, of, flaw: { ...SOUND, decide: wrong } }
}

/** A defect between the database and the operation. */
export function client(of: string, name: string, wrap: Flaw['wrap']): Mutant {
  return { name, of, flaw: { ...SOUND, wrap } }
}

/** The current token of the record, whichever attempt holds it. */
export function newestToken({ database, tx }: Work, id: string): string {
  return String(database.records.seen(id, tx)?.token ?? 0)
}
