import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { effectivelyOnce, type Consumer, type Once, type RedriveStatus, type Signal } from '../../src/index.ts'
import type { ConsumerRow } from '../../src/store/memory/database/inbox-rows.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import type { MemoryTx } from '../../src/store/memory/database/memory-tx.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { sqliteStore } from '../../src/store/sqlite/sqlite.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { memoryBroker, type MemoryBroker, type MemoryMessage } from '../../src/testing/source-contract/memory-broker.ts'

/** What PostgreSQL's transactions and SQLite's have in common. */
export interface SomeTx {
  query(sql: string, values?: unknown[]): Promise<{ rows: unknown[] }>
}

export type SomeOnce = Once<SomeTx, {}>

export interface RedriveWorld {
  readonly once: SomeOnce
  readonly store: SqlStore<SomeTx>
  readonly broker: MemoryBroker
  readonly signals: Signal[]
  /** While it returns an error, a message fails with it. */
  fails: (id: string, data: { broken?: boolean }) => Error | null
  /** How long each message takes. */
  pauseMs: number
  consumer(options?: { concurrency?: number; attempts?: number; onFailure?: 'park' | 'skip' }): Consumer
  /** Messages that fail now, and are dead letters afterwards. */
  park(...messages: MemoryMessage[]): Promise<void>
  /** How often each message was applied, in the order of the first time. */
  applied(): Promise<Map<string, number>>
  /** One application, in its handler's transaction. */
  write(tx: SomeTx, id: string, note?: string): Promise<void>
  /** What was applied, in order. */
  written(): Promise<readonly { readonly id: string; readonly note: string | null }[]>
  /** The inbox remembers nothing from now on. */
  forget(): Promise<void>
  /** Every consumer was last seen an hour ago. */
  unseen(): Promise<void>
  sql(text: string): Promise<Record<string, unknown>[]>
  /** Until the redrive stops. */
  ended(id: number): Promise<RedriveStatus>
  close(): Promise<void>
}

export type Backend = 'pg' | 'sqlite' | 'memory'

export const CONSUMER = 'receipts'

/** Opens a service whose consumer writes one row per application. `where`: a URL, a file, or nothing for memory. */
export async function openRedriveWorld(backend: Backend, where: string): Promise<RedriveWorld> {
  const pool = backend === 'pg' ? new pg.Pool({ connectionString: where, max: 12 }) : undefined
  pool?.on('error', () => {})
  const memory = backend === 'memory' ? memoryStore() : undefined
  const sqlite = backend === 'sqlite' ? sqliteStore({ file: where }) : undefined
  const store = (pool ? pgStore(pool) : (sqlite ?? memory)) as unknown as SqlStore<SomeTx>
  const signals: Signal[] = []
  const once: SomeOnce = effectivelyOnce({
    namespace: 'redrive',
    store,
    guard: 'off',
    sweep: false,
    observe: (signal) => void signals.push(signal),
  })
  await once.migrate()
  const sql = async (text: string): Promise<Record<string, unknown>[]> => {
    const asked = pool ? await pool.query(text) : await sqlite?.transaction((tx) => tx.query(text))
    return (asked?.rows ?? []) as Record<string, unknown>[]
  }
  const serial = pool ? 'bigserial primary key' : 'integer primary key autoincrement'
  if (!memory) await sql(`create table if not exists applied (seq ${serial}, id text not null, note text)`)
  const setConsumers = async (set: string, change: (row: ConsumerRow) => Partial<ConsumerRow>): Promise<void> => {
    const { database } = memory ?? {}
    if (!database) {
      await sql(`update ${pool ? 'effectively_once.consumer' : 'effectively_once_consumer'} set ${set}`)
      return
    }
    const tx = database.begin()
    for (const [name, row] of database.consumers.rows(tx)) database.consumers.put(name, { ...row, ...change(row) }, tx)
    tx.commit()
  }
  const broker = memoryBroker()
  const consumers = new Set<Consumer>()
  const world: RedriveWorld = {
    once,
    store,
    broker,
    signals,
    sql,
    fails: () => null,
    pauseMs: 0,
    consumer(options = {}) {
      const consumer = once.consumer(
        CONSUMER,
        { from: broker.source, attempts: 1, batch: 20, ...options },
        {
          'step.made': async (event, { tx }) => {
            await world.write(tx, event.id, String(event.data?.note ?? ''))
            if (world.pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, world.pauseMs))
            const error = world.fails(event.id, (event.data ?? {}) as { broken?: boolean })
            if (error) throw error
          },
        },
      )
      consumers.add(consumer)
      return consumer
    },
    async park(...messages) {
      const before = world.fails
      world.fails = () => new Error('the receipt printer is on fire')
      broker.publish(...messages)
      await world.consumer().drain()
      world.fails = before
    },
    async applied() {
      const times = new Map<string, number>()
      for (const { id } of await world.written()) times.set(id, (times.get(id) ?? 0) + 1)
      return times
    },
    async write(tx, id, note) {
      if (memory) await (tx as unknown as MemoryTx).insert('applied', { id, note: note ?? null })
      else await tx.query('insert into applied (id, note) values ($1, $2)', [id, note ?? null])
    },
    async written() {
      const rows = memory ? memory.rows('applied') : await sql('select id, note from applied order by seq')
      return rows.map(({ id, note }) => ({ id: String(id), note: note as string | null }))
    },
    async forget() {
      await setConsumers('remember_ms = 0', () => ({ rememberForMs: 0 }))
    },
    async unseen() {
      const ago = pool ? `seen_at - interval '1 hour'` : 'seen_at - 3600000'
      await setConsumers(`seen_at = ${ago}`, ({ seenAt }) => ({ seenAt: seenAt - 3_600_000_000 }))
    },
    async ended(id) {
      let last: RedriveStatus | undefined
      for await (const status of once.redrive.watch(id, { everyMs: 20, signal: AbortSignal.timeout(60_000) }))
        last = status
      if (!last || last.state === 'running') throw new Error(`redrive ${id} did not end: ${JSON.stringify(last)}`)
      return last
    },
    async close() {
      for (const consumer of consumers) await consumer.stop()
      await once.close()
      await pool?.end()
    },
  }
  return world
}

/** A file that is removed in the end. */
export async function temporaryFile(): Promise<{ file: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'once-redrive-'))
  return { file: join(folder, 'shop.db'), remove: () => rm(folder, { recursive: true, force: true }) }
}

export const BY = { by: 'ada', why: 'the printer works again' }
