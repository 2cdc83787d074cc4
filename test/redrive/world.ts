import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { effectivelyOnce, type Consumer, type Once, type RedriveStatus, type Signal } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { sqliteStore } from '../../src/store/sqlite/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { memoryBroker, type MemoryBroker, type MemoryMessage } from '../../src/testing/source-contract/memory-broker.ts'

/** What PostgreSQL's transactions and SQLite's have in common. */
export interface SomeTx {
  query(sql: string, values?: unknown[]): Promise<{ rows: unknown[] }>
}

export type SomeOnce = Once<SomeTx, {}>

export interface RedriveWorld {
  readonly once: SomeOnce
  readonly store: Store<SomeTx>
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
  sql(text: string): Promise<Record<string, unknown>[]>
  /** Until the redrive stops. */
  ended(id: number): Promise<RedriveStatus>
  close(): Promise<void>
}

export type Backend = 'pg' | 'sqlite'

export const CONSUMER = 'receipts'

/** Opens a service whose consumer writes one row per application. `where`: a URL, or a file. */
export async function openRedriveWorld(backend: Backend, where: string): Promise<RedriveWorld> {
  const pool = backend === 'pg' ? new pg.Pool({ connectionString: where, max: 12 }) : undefined
  pool?.on('error', () => {})
  const sqlite = pool ? undefined : sqliteStore({ file: where })
  const store = (pool ? pgStore(pool) : sqlite) as unknown as Store<SomeTx>
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
  await sql(`create table if not exists applied (seq ${serial}, id text not null, note text)`)
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
            await tx.query('insert into applied (id, note) values ($1, $2)', [event.id, String(event.data?.note ?? '')])
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
      const rows = await sql('select id, count(*) as n from applied group by id order by min(seq)')
      return new Map(rows.map(({ id, n }) => [String(id), Number(n)]))
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
