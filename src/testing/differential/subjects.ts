import type pg from 'pg'
import { MemoryDatabase } from '../../store/memory/database/database.ts'
import { raised } from '../../store/memory/database/failure.ts'
import { memoryStore } from '../../store/memory/memory-store.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import { pgStore } from '../../store/postgres/pg.ts'
import type { SqliteStore } from '../../store/sqlite/sqlite.ts'
import type { SqlStore } from '../../store/store.ts'
import type { SqlSubject } from '../contract/subject.ts'

/** COMMIT refuses a transaction that wrote a row with this key. */
export const DEFERRED = 'deferred'

/** The in-memory store, which is the model. */
export function inMemory(): SqlSubject {
  const database = new MemoryDatabase({
    triggers: { raising: () => Promise.reject(raised('no')) },
    deferred: {
      effects: ({ key }) => {
        if (key === DEFERRED) throw raised('not at the end either')
      },
    },
  })
  const memory = memoryStore({ database })
  const store: SqlStore<unknown> = memory
  return {
    store,
    effect: async (tx, key) => void (await (tx as MemoryTx).insert('effects', { key })),
    effects: (key) => Promise.resolve(memory.rows('effects').filter((row) => row['key'] === key).length),
    statement: (key) => ({ sql: 'insert into effects', values: [{ key }] }),
    fail: (tx) => (tx as MemoryTx).insert('raising', {}).then(noop, noop),
    close: () => Promise.resolve(),
  }
}

/** Needs a table `effects (key)` and a deferred constraint trigger that raises for the key `DEFERRED`. */
export function onPostgres(pool: pg.Pool): SqlSubject {
  const store = pgStore(pool) as SqlStore<unknown>
  return {
    store,
    effect: async (tx, key) => void (await (tx as pg.PoolClient).query('insert into effects values ($1)', [key])),
    async effects(key) {
      const { rows } = await pool.query<{ n: number }>('select count(*)::int4 n from effects where key = $1', [key])
      return rows[0]!.n
    },
    statement: (key) => ({ sql: 'insert into effects values ($1)', values: [key] }),
    async fail(tx) {
      const client = tx as pg.PoolClient
      await client.query(`do $$ begin raise exception 'no'; end $$`).catch(noop)
      // The server sends the error before it releases the locks. It answers the next statement after that.
      await client.query('select').catch(noop)
    },
    close: () => store.close(),
  }
}

/** Needs a table `charge (key, amount)`. */
export function onSqlite(store: SqliteStore): SqlSubject {
  return {
    store,
    async effect(tx, key) {
      const { query } = tx as { query(sql: string, values: unknown[]): Promise<unknown> }
      await query('insert into charge (key, amount) values ($1, 1)', [key])
    },
    effects: (key) =>
      store.transaction(async (tx) => {
        const { rows } = await tx.query<{ n: number }>('select count(*) as n from charge where key = $1', [key])
        return rows[0]?.n ?? 0
      }),
    statement: (key) => ({ sql: 'insert into charge (key, amount) values ($1, 1)', values: [key] }),
    close: async () => {},
  }
}

function noop(): void {}
