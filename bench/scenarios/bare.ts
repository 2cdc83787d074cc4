import type pg from 'pg'
import { bareCharge } from '../hand/bare.ts'
import { newCharge } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'
import { sender, type Form } from '../support/statement.ts'

/** No protection at all, with one event. */
export function bare4(pool: pg.Pool, form: Form): Scenario {
  const charge = bareCharge(pool, sender(form), true)
  return { name: form === 'prepared' ? 'bare4Prepared' : 'bare4', callers: CALLERS, operate: () => charge(newCharge()) }
}

/** The same without an event. */
export function bare3(pool: pg.Pool, form: Form): Scenario {
  const charge = bareCharge(pool, sender(form), false)
  return { name: form === 'prepared' ? 'bare3Prepared' : 'bare3', callers: CALLERS, operate: () => charge(newCharge()) }
}
