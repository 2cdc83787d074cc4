import { randomUUID } from 'node:crypto'
import type { Answer } from '../../src/lifecycle/answer.ts'
import type { Library, OpenFile } from '../../src/store/sqlite/client.ts'
import { findLibrary, installed } from '../../src/store/sqlite/library.ts'
import type { SqliteStore } from '../../src/store/sqlite/sqlite.ts'
import type { SqlTx } from '../../src/store/sqlite/tx.ts'
import type { Claim, Claimed, EventRow, Row, SqlSession } from '../../src/store/store.ts'

export function libraryCalled(name: Library): () => Promise<OpenFile> {
  return () => findLibrary(name === 'libsql' ? { ...installed, builtin: () => undefined } : installed)
}

export function makeClaim(over: Partial<Claim> = {}): Claim {
  return {
    id: randomUUID(),
    scope: 'scope',
    lock: '1',
    fingerprintLock: '2',
    fingerprint: 'print',
    fingerprintVersion: 1,
    replayForMs: 60_000,
    goneForMs: 60_000,
    ...over,
  }
}

export function makeAnswer(text = 'done', over: Partial<Answer> = {}): Answer {
  return {
    status: 201,
    headers: [['content-type', 'text/plain']],
    body: new TextEncoder().encode(text),
    kept: true,
    ...over,
  }
}

export function makeEvent(over: Partial<EventRow> = {}): EventRow {
  const event = { shard: 7, aggregateType: 'shop', aggregateId: 'customer', type: 'charge.created' }
  return { id: randomUUID(), ...event, payload: '{"amount":5}', headers: '{}', ...over }
}

export async function query(store: SqliteStore, sql: string, values: readonly unknown[] = []): Promise<Row[]> {
  return store.transaction(async (tx) => (await tx.query(sql, values)).rows)
}

export async function count(store: SqliteStore, table: string): Promise<number> {
  const [row] = await query(store, `select count(*) as n from ${table}`)
  return Number(row?.['n'])
}

/** Moves everything the record remembers into the past. */
export async function age(store: SqliteStore, id: string, ms: number): Promise<void> {
  const columns = 'lease_until = lease_until - $2, expires_at = expires_at - $2, forget_at = forget_at - $2'
  await query(store, `update effectively_once_record set ${columns} where id = $1`, [id, ms])
}

/** Claims a key that must be new. */
export async function begin(
  store: SqliteStore,
  claim: Claim,
  deadlineMs = 5_000,
): Promise<{ session: SqlSession<SqlTx>; claimed: Claimed }> {
  const { session, claimed } = await store.begin({ claim, deadlineMs })
  if (!claimed) throw new Error('the key was not new')
  return { session, claimed }
}

/** A whole atomic operation: one charge, one answer, maybe events. */
export async function charge(store: SqliteStore, claim: Claim, events: readonly EventRow[] = []): Promise<Claimed> {
  const { session, claimed } = await begin(store, claim)
  await session.tx.query('insert into charge (key, amount) values ($1, $2)', [claim.id, 5])
  await session.complete({ claim, claimed, answer: makeAnswer(), events, fenced: false })
  return claimed
}
