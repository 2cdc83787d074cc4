import pg from 'pg'
import { effectivelyOnce, event, type Once } from '../../src/index.ts'
import { pgStore, type PgTx } from '../../src/store/postgres/pg.ts'

export const events = {
  'order.made': event<{ order: string; n: number; note: string }>((order) => order.order),
  'scan.made': event<{ order: string; pixels: number[] }>((scan) => scan.order, {
    contentType: 'application/octet-stream',
    encode: (scan) => new Uint8Array(scan.pixels),
  }),
}

export const ORDERS = 8
const PER_OPERATION = 5

export interface Shop {
  readonly once: Once<PgTx<pg.PoolClient>, typeof events>
  readonly pool: pg.Pool
  /** Publishes events of several aggregates, in transactions of a few events. */
  publish(count: number): Promise<void>
  close(): Promise<void>
}

export async function openShop(url: string, namespace: string): Promise<Shop> {
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  pool.on('error', () => {})
  const once = effectivelyOnce({ namespace, store: pgStore(pool), events, guard: 'off', sweep: false })
  await once.migrate()
  await pool.query('create table if not exists receipt (event text, kind text, n int)')
  let n = 0
  return {
    once,
    pool,
    async publish(count) {
      const numbers = Array.from({ length: count }, () => n++)
      for (let at = 0; at < count; at += PER_OPERATION) {
        const some = numbers.slice(at, at + PER_OPERATION)
        await once.run({ scope: namespace, key: `k${some[0]}`, input: null }, async ({ publish }) => {
          for (const each of some) {
            const order = `order-${each % ORDERS}`
            if (each % 10 === 9) await publish('scan.made', { order, pixels: [each & 255, 0, 255, 10] })
            else await publish('order.made', { order, n: each, note: `ü "${each}" \\ \n` }, { tenant: 'acme' })
          }
        })
      }
    },
    async close() {
      await once.close()
      await pool.end()
    },
  }
}
