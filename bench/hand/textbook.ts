import { createHash } from 'node:crypto'
import type pg from 'pg'
import { INSERT_CHARGE, INSERT_EVENT } from '../support/charge.ts'
import type { Charge, Charged } from '../support/charge.ts'
import { inTransaction } from '../support/database.ts'
import type { Send } from '../support/statement.ts'

const CLAIM = 'insert into idempotency_key (key, request_hash) values ($1, $2) on conflict do nothing'
const FIND = 'select request_hash, response from idempotency_key where key = $1'
const ANSWER = 'update idempotency_key set response = $2 where key = $1'

export type Keyed = (charge: Charge, key: string) => Promise<Charged>

/** The textbook: the key first, its response last, each awaited: six trips with an event, five without. */
export function textbookCharge(pool: pg.Pool, send: Send, withEvent: boolean): Keyed {
  return (charge, key) =>
    inTransaction(pool, async (client) => {
      const { account, amount } = charge
      const requestHash = hashOf(charge)
      const claim = await send(client, CLAIM, [key, requestHash])
      if (claim.rowCount !== 1) return replayed((await send(client, FIND, [key])).rows[0], requestHash)
      const { rows } = await send(client, INSERT_CHARGE, [account, amount])
      const charged = { id: rows[0].id as string, account, amount }
      const response = JSON.stringify(charged)
      if (withEvent) await send(client, INSERT_EVENT, ['charge', account, 'charge.created', response])
      await send(client, ANSWER, [key, response])
      return charged
    })
}

function replayed(found: { request_hash: string; response: Charged }, requestHash: string): Charged {
  if (found.request_hash !== requestHash) throw new Error('the key was used for another charge')
  return found.response
}

/** Everything in one statement, response included. It cannot run a handler in between. */
export function oneStatementCharge(pool: pg.Pool, send: Send): Keyed {
  return async (charge, key) => {
    const { rows } = await send(pool, ONE_STATEMENT, [key, hashOf(charge), charge.account, charge.amount])
    return rows[0].response as Charged
  }
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

function hashOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex')
}
