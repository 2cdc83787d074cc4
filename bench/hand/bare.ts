import type pg from 'pg'
import { INSERT_CHARGE, INSERT_EVENT } from '../support/charge.ts'
import type { Charge, Charged } from '../support/charge.ts'
import { inTransaction } from '../support/database.ts'
import type { Send } from '../support/statement.ts'

/** No protection at all: begin, charge, event if one is asked for, commit, each awaited. Everything is measured against it. */
export function bareCharge(pool: pg.Pool, send: Send, withEvent: boolean): (charge: Charge) => Promise<Charged> {
  return ({ account, amount }) =>
    inTransaction(pool, async (client) => {
      const { rows } = await send(client, INSERT_CHARGE, [account, amount])
      const charged = { id: rows[0].id as string, account, amount }
      if (withEvent) await send(client, INSERT_EVENT, ['charge', account, 'charge.created', JSON.stringify(charged)])
      return charged
    })
}
