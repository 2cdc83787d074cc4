import type { Server } from 'node:http'
import pg from 'pg'
import { effectivelyOnce, event, type Closed, type LeasedOperation, type Operation } from '../../src/index.ts'
import { pgStore, type PgTx } from '../../src/store/postgres/pg.ts'

/** Every process of the shop must be gone this soon after SIGTERM. */
export const WITHIN_MS = 10_000
export const WITHIN = '10s'
export const STREAM = 'deploys'
export const CONSUMERS = ['receipts', 'points'] as const

export const events = { 'charge.made': event<{ charge: number; customer: string }>(({ customer }) => customer) }
type Shop = typeof events

export interface Order {
  readonly key: string
  readonly customer: string
  /** How long the handler takes. */
  readonly workMs: number
}

/** No unique key anywhere: the tables show what happened twice. */
export const TABLES = `
  create table charges (id serial primary key, key text not null, attempt text not null);
  create table calls (key text not null, at timestamptz not null default now());
  create table applied (consumer text not null, event text not null, charge int4 not null)`

export function openShop(database: string) {
  const pool = new pg.Pool({ connectionString: database, max: 8 })
  pool.on('error', () => {})
  const once = effectivelyOnce({ namespace: 'shop', store: pgStore(pool), events, guard: 'off' })
  return { pool, once }
}

/** The effect, its event and the answer in one transaction. */
export async function charge(
  { tx, publish }: Operation<PgTx<pg.PoolClient>, Shop>,
  order: Order,
  attempt: string,
): Promise<object> {
  const { key, customer, workMs } = order
  const insert = 'insert into charges (key, attempt) values ($1, $2) returning id'
  const { rows } = await tx.query<{ id: number }>(insert, [key, attempt])
  const id = rows[0]?.id as number
  await publish('charge.made', { charge: id, customer })
  await pause(workMs)
  return { charge: id }
}

/** An outside call first, then the effect. */
export async function pay(op: LeasedOperation<PgTx<pg.PoolClient>, Shop>, pool: pg.Pool, order: Order): Promise<void> {
  await op.step('provider', async ({ key }) => {
    await pause(order.workMs)
    await pool.query('insert into calls (key) values ($1)', [key])
    return {}
  })
}

/** Ends the process as docs/shutdown.md says, then the clients that the process opened. */
export function onSigterm(
  once: { close(options: { within: typeof WITHIN; server?: Server }): Promise<Closed> },
  { server, end }: { server?: Server; end(): Promise<unknown> },
): void {
  const told = async (): Promise<void> => {
    const at = performance.now()
    const { cutOff } = await once.close({ within: WITHIN, ...(server && { server }) })
    const closedMs = performance.now() - at
    await end()
    process.stdin.destroy()
    const endedMs = performance.now() - at
    // What a late process was busy with.
    if (cutOff.length > 0 || endedMs > WITHIN_MS / 2) {
      console.error(`closed after ${closedMs.toFixed()} ms, ended after ${endedMs.toFixed()} ms`, cutOff)
    }
  }
  process.once('SIGTERM', () => {
    told().catch((error: unknown) => {
      console.error(error)
      process.exit(1)
    })
  })
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
