import { createHash, randomUUID } from 'node:crypto'
import type pg from 'pg'
import { INSERT_CHARGE } from '../support/charge.ts'
import type { Charge, Charged } from '../support/charge.ts'
import type { Keyed } from './textbook.ts'
import type { Send } from '../support/statement.ts'

export const PIPELINED_TABLES = `
create table pipelined_key (
  id bytea primary key,
  request_hash bytea not null,
  code smallint not null,
  body bytea not null,
  expires_at timestamptz not null
);
create table pipelined_event (
  seq bigint generated always as identity primary key,
  id uuid not null,
  aggregatetype text not null,
  aggregateid text not null,
  type text not null,
  payload jsonb not null,
  created_at timestamptz not null default now()
)`

const LOOK = `select pg_try_advisory_xact_lock($2) as locked, (select request_hash from pipelined_key where id = $1) as found`
const FIND = 'select request_hash, code, body from pipelined_key where id = $1'
const KEEP = `insert into pipelined_key (id, request_hash, code, body, expires_at) values ($1, $2, 201, $3, now() + interval '1 day')`
const KEEP_AND_PUBLISH = `
with e as (insert into pipelined_event (id, aggregatetype, aggregateid, type, payload) values ($4, 'charge', $5, 'charge.created', $6))
${KEEP}`

/**
 * The strongest version by hand that we know: an advisory lock is the claim, and key, answer and event are one late
 * statement. Three trips, on a pool with `pipeline: true`. It has none of our deadlines, leases, tokens and refusals.
 */
export function pipelinedCharge(pool: pg.Pool, send: Send, withEvent: boolean): Keyed {
  return async (charge, key) => {
    const id = createHash('sha256').update(`bench\0merchant-1\0${key}`).digest()
    const requestHash = createHash('sha256').update(JSON.stringify(charge)).digest()
    const client = await pool.connect()
    let broken = false
    try {
      const begun = client.query('begin')
      const looked = send(client, LOOK, [id, id.readBigInt64LE(0).toString()])
      const { rows } = (await Promise.all([begun, looked]))[1]
      if (!rows[0].locked) throw new Error('the key is in use')
      if (rows[0].found !== null) return await replayed(client, send, id, requestHash)
      const charged = await insertCharge(client, send, charge)
      const body = JSON.stringify(charged)
      const values = [id, requestHash, Buffer.from(body)]
      const kept = withEvent
        ? send(client, KEEP_AND_PUBLISH, [...values, randomUUID(), charge.account, body])
        : send(client, KEEP, values)
      await Promise.all([kept, client.query('commit')])
      return charged
    } catch (error) {
      await client.query('rollback').catch(() => (broken = true))
      throw error
    } finally {
      client.release(broken)
    }
  }
}

async function insertCharge(client: pg.PoolClient, send: Send, { account, amount }: Charge): Promise<Charged> {
  const { rows } = await send(client, INSERT_CHARGE, [account, amount])
  return { id: rows[0].id as string, account, amount }
}

async function replayed(client: pg.PoolClient, send: Send, id: Buffer, requestHash: Buffer): Promise<Charged> {
  const [{ rows }] = await Promise.all([send(client, FIND, [id]), client.query('commit')])
  if (!requestHash.equals(rows[0].request_hash)) throw new Error('the key was used for another charge')
  return JSON.parse(rows[0].body.toString()) as Charged
}
