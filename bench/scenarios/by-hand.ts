import { createHash } from 'node:crypto'
import type pg from 'pg'
import { INSERT_CHARGE, INSERT_EVENT, newCharge, newKey } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'
import { sender, type Form } from '../support/statement.ts'

type Send = ReturnType<typeof sender>

/** The textbook: the key first, its response last, six trips. */
export function handSix(pool: pg.Pool, form: Form = 'unprepared'): Scenario {
  const send = sender(form)
  const name = form === 'prepared' ? 'handSixPrepared' : 'handSix'
  return { name, callers: CALLERS, operate: () => inSixTrips(pool, send) }
}

/** Everything in one statement, response included. */
export function handOne(pool: pg.Pool, form: Form = 'unprepared'): Scenario {
  const send = sender(form)
  const name = form === 'prepared' ? 'handOnePrepared' : 'handOne'
  return { name, callers: CALLERS, operate: () => inOneStatement(pool, send) }
}

async function inSixTrips(pool: pg.Pool, send: Send): Promise<unknown> {
  const charge = newCharge()
  const { account, amount } = charge
  const key = newKey()
  const client = await pool.connect()
  try {
    await client.query('begin')
    const claim = await send(
      client,
      'insert into idempotency_key (key, request_hash) values ($1, $2) on conflict do nothing',
      [key, hash(charge)],
    )
    if (claim.rowCount !== 1) throw new Error('a new key was taken')
    const { rows } = await send(client, INSERT_CHARGE, [account, amount])
    const response = JSON.stringify({ id: rows[0].id, account, amount })
    await send(client, INSERT_EVENT, ['charge', account, 'charge.created', response])
    await send(client, 'update idempotency_key set response = $2 where key = $1', [key, response])
    await client.query('commit')
    return JSON.parse(response)
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

async function inOneStatement(pool: pg.Pool, send: Send): Promise<unknown> {
  const charge = newCharge()
  const { account, amount } = charge
  const { rows } = await send(pool, ONE_STATEMENT, [newKey(), hash(charge), account, amount])
  return rows[0].response
}

const ONE_STATEMENT = `
with c as (
  insert into charge (account, amount)
  select $3, $4::int where not exists (select 1 from idempotency_key where key = $1)
  returning id
), a as (
  select jsonb_build_object('id', c.id::text, 'account', $3::text, 'amount', $4::int) as response from c
), e as (
  insert into event (aggregatetype, aggregateid, type, payload)
  select 'charge', $3, 'charge.created', a.response from a
)
insert into idempotency_key (key, request_hash, response) select $1, $2, a.response from a returning response`

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex')
}
