import pg from 'pg'
import type { Duration } from '../../src/duration.ts'
import { event } from '../../src/index.ts'
import { createOnce } from '../../src/once/once.ts'
import type { OnceInstance } from '../../src/once/once.ts'
import { systemParts } from '../../src/operation/parts.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import type { PgTx } from '../../src/store/postgres/pg.ts'
import { PIPELINED_TABLES } from '../hand/pipelined.ts'

export const CALLERS = 32
/** Of each pool: as many as callers, unless many servers share one database. */
export const CONNECTIONS = Number(process.env['BENCH_CONNECTIONS'] ?? CALLERS)

export type Tx = PgTx<pg.PoolClient>
export type Events = typeof events
export type BenchOnce = OnceInstance<Tx, Events>

export const events = {
  'charge.created': event<{ id: string; account: string; amount: number }>((charge) => charge.account),
}

/** A database of its own with the business tables; `once` adds ours. */
export async function createDatabase(serverUrl: string, name: string): Promise<string> {
  await onServer(serverUrl, `create database ${name}`)
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  await onServer(url.href, `${TABLES};${PIPELINED_TABLES}`)
  return url.href
}

export function openPool(url: string, options: pg.PoolConfig & { readonly pipeline?: boolean } = {}): pg.Pool {
  // Connections stay open between two rounds: opening them again is no part of an operation.
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS, idleTimeoutMillis: 0, ...options })
  // An idle connection that the server ends at the very end is nobody's loss.
  pool.on('error', () => {})
  return pool
}

export interface OnceOptions {
  readonly listen?: boolean
  readonly replayFor?: Duration
  readonly goneFor?: Duration
}

export async function openOnce(pool: pg.Pool, more: OnceOptions = {}): Promise<BenchOnce> {
  const options = {
    namespace: 'bench',
    store: pgStore(pool),
    events,
    guard: 'off',
    sweep: false,
    listen: false,
    ...more,
  } as const
  const once = createOnce(options, systemParts)
  await once.migrate()
  return once
}

export async function inTransaction<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

export async function onServer(url: string, text: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await client.query(text)
  } finally {
    await client.end()
  }
}

const TABLES = `
create table charge (
  id bigint generated always as identity primary key,
  account text not null,
  amount int not null check (amount > 0),
  created_at timestamptz not null default now()
);
create table event (
  id bigint generated always as identity primary key,
  aggregatetype text not null,
  aggregateid text not null,
  type text not null,
  payload jsonb not null,
  created_at timestamptz not null default now()
);
create table idempotency_key (
  key text primary key,
  request_hash text not null,
  response jsonb,
  created_at timestamptz not null default now()
)`
