import type pg from 'pg'
import { INSERT_CHARGE, INSERT_EVENT, newCharge } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'
import { sender, type Form } from '../support/statement.ts'

/** No protection at all: begin, charge, event, commit, each awaited. Everything else is measured against it. */
export function bare4(pool: pg.Pool, form: Form = 'unprepared'): Scenario {
  const send = sender(form)
  return { name: form === 'prepared' ? 'bare4Prepared' : 'bare4', callers: CALLERS, operate: () => charge(pool, send) }
}

async function charge(pool: pg.Pool, send: ReturnType<typeof sender>): Promise<{ id: string }> {
  const { account, amount } = newCharge()
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await send(client, INSERT_CHARGE, [account, amount])
    const { id } = rows[0]
    const payload = JSON.stringify({ id, account, amount })
    await send(client, INSERT_EVENT, ['charge', account, 'charge.created', payload])
    await client.query('commit')
    return { id }
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}
