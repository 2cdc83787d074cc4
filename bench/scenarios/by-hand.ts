import type pg from 'pg'
import { pipelinedCharge } from '../hand/pipelined.ts'
import { oneStatementCharge, textbookCharge, type Keyed } from '../hand/textbook.ts'
import { newCharge, newKey } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'
import { sender, type Form } from '../support/statement.ts'

export function handSix(pool: pg.Pool, form: Form): Scenario {
  return repeated(named('handSix', form), textbookCharge(pool, sender(form), true))
}

export function handFive(pool: pg.Pool, form: Form): Scenario {
  return repeated(named('handFive', form), textbookCharge(pool, sender(form), false))
}

export function handOne(pool: pg.Pool, form: Form): Scenario {
  return repeated(named('handOne', form), oneStatementCharge(pool, sender(form)))
}

/** `pool` pipelines. */
export function handPipelined(pool: pg.Pool, form: Form, withEvent: boolean): Scenario {
  const name = withEvent ? 'handPipelined' : 'handPipelinedNoEvent'
  return repeated(form === 'prepared' ? name : `${name}Unprepared`, pipelinedCharge(pool, sender(form), withEvent))
}

function named(name: string, form: Form): string {
  return form === 'prepared' ? `${name}Prepared` : name
}

function repeated(name: string, charge: Keyed): Scenario {
  return { name, callers: CALLERS, operate: () => charge(newCharge(), newKey()) }
}
