import type pg from 'pg'
import { memoryStore } from '../../store/memory/memory-store.ts'
import { pgStore } from '../../store/postgres/pg.ts'
import type { SqliteStore } from '../../store/sqlite/sqlite.ts'
import type { Store } from '../../store/store.ts'
import type { StoreSubject } from '../contract/subject.ts'

/** The model. */
export function inMemory(): StoreSubject<unknown> {
  const memory = memoryStore()
  const store: Store<unknown> = memory
  return {
    store,
    effect: async (tx, key) =>
      void (await (tx as { insert(table: string, row: object): Promise<unknown> }).insert('effects', { key })),
    effects: (key) => Promise.resolve(memory.rows('effects').filter((row) => row['key'] === key).length),
    statement: (key) => ({ sql: 'insert into effects', values: [{ key }] }),
    close: () => Promise.resolve(),
  }
}

/** With a table `effects (key)`. */
export function onPostgres(pool: pg.Pool): StoreSubject<unknown> {
  const store = pgStore(pool) as Store<unknown>
  return {
    store,
    effect: async (tx, key) => void (await (tx as pg.PoolClient).query('insert into effects values ($1)', [key])),
    async effects(key) {
      const { rows } = await pool.query<{ n: number }>('select count(*)::int4 n from effects where key = $1', [key])
      return rows[0]!.n
    },
    statement: (key) => ({ sql: 'insert into effects values ($1)', values: [key] }),
    close: () => store.close(),
  }
}

/** With a table `charge (key, amount)`. */
export function onSqlite(store: SqliteStore): StoreSubject<unknown> {
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
