import type pg from 'pg'
import { INSERT_CHARGE, INSERT_EVENT, newCharge } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'

/** No protection at all: begin, charge, event, commit, each awaited. Everything else is measured against it. */
export function bare4(pool: pg.Pool): Scenario {
  return { name: 'bare4', callers: CALLERS, operate: () => charge(pool) }
}

async function charge(pool: pg.Pool): Promise<{ id: string }> {
  const { account, amount } = newCharge()
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query(INSERT_CHARGE, [account, amount])
    const { id } = rows[0]
    const payload = JSON.stringify({ id, account, amount })
    await client.query(INSERT_EVENT, ['charge', account, 'charge.created', payload])
    await client.query('commit')
    return { id }
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}
