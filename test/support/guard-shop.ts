import pg from 'pg'
import { effectivelyOnce } from '../../src/once/once.ts'
import type { OnceOptions } from '../../src/operation/types.ts'
import type { Once } from '../../src/once/types.ts'
import { event } from '../../src/outbox/event.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import type { PgTx } from '../../src/store/postgres/pg.ts'
import { witness, type Witness } from './guard-witness.ts'

export const shopEvents = { 'charge.made': event<{ id: number }>(({ id }) => `charge:${id}`) }

export type ShopTx = PgTx<pg.PoolClient>
type Options = Partial<OnceOptions<ShopTx, typeof shopEvents>>

export interface Shop extends Witness {
  readonly pool: pg.Pool
  readonly once: Once<ShopTx, typeof shopEvents>
  /** What is in the table of effects, in order. */
  charges(): Promise<number[]>
  close(): Promise<void>
}

/** A service on PostgreSQL with one table of effects, and a witness of what the guard says about it. */
export async function openShop(url: string, options: Options = {}, config: pg.PoolConfig = {}): Promise<Shop> {
  const pool = new pg.Pool({ connectionString: url, max: 4, ...config })
  const heard = witness()
  const store = pgStore(pool)
  const once = effectivelyOnce({
    namespace: 'shop',
    store,
    events: shopEvents,
    sweep: false,
    observe: heard.observe,
    ...options,
  })
  await once.migrate()
  await pool.query('create table if not exists charges (id int primary key); truncate charges')
  return {
    ...heard,
    pool,
    once,
    async charges() {
      const { rows } = await pool.query<{ id: number }>('select id from charges order by id')
      return rows.map(({ id }) => id)
    },
    async close() {
      heard.stop()
      await once.close()
      if (!pool.ending) await pool.end()
    },
  }
}
