import pg from 'pg'
import { event, type Signal } from '../../src/index.ts'
import { createOnce, type OnceInstance } from '../../src/once/once.ts'
import { systemParts } from '../../src/operation/parts.ts'
import { pgStore, type PgTx } from '../../src/store/postgres/pg.ts'
import type { SqlStore } from '../../src/store/store.ts'

export { until } from '../support/until.ts'

export const events = {
  'step.made': event<{ aggregate: string; n: number }>((step) => step.aggregate),
}

export type RelayOnce = OnceInstance<PgTx<pg.PoolClient>, typeof events>

export interface World {
  readonly pool: pg.Pool
  readonly once: RelayOnce
  readonly signals: Signal[]
  /** One event of an aggregate, numbered under the lock of its own row. */
  make(aggregate: string): Promise<void>
  close(): Promise<void>
}

/** A service that numbers the steps of each aggregate and publishes them. */
export async function openWorld(
  url: string,
  max = 20,
  storeOf: (pool: pg.Pool) => SqlStore<PgTx<pg.PoolClient>> = pgStore,
): Promise<World> {
  const pool = new pg.Pool({ connectionString: url, max })
  pool.on('error', () => {})
  const signals: Signal[] = []
  const once = createOnce(
    {
      namespace: 'relay',
      store: storeOf(pool),
      events,
      guard: 'off',
      sweep: false,
      observe: (signal) => void signals.push(signal),
    },
    systemParts,
  )
  let keys = 0
  const run = Math.random().toString(36).slice(2)
  return {
    pool,
    once,
    signals,
    async make(aggregate) {
      await once.run({ scope: 's', key: `${run}-${keys++}`, input: null }, async ({ tx, publish }) => {
        const { rows } = await tx.query<{ n: number }>(
          `insert into counter values ($1, 1) on conflict (id) do update set n = counter.n + 1 returning n`,
          [aggregate],
        )
        await publish('step.made', { aggregate, n: rows[0]?.n ?? 0 })
      })
    },
    async close() {
      await once.close()
      await pool.end()
    },
  }
}

export async function prepare(world: World): Promise<void> {
  await world.once.migrate()
  await world.pool.query('create table if not exists counter (id text primary key, n int not null)')
}

export interface Step {
  readonly aggregate: string
  readonly n: number
}

/** First occurrences of each aggregate must be 1, 2, 3, … up to what was committed. */
export function judge(
  seen: readonly Step[],
  committed: ReadonlyMap<string, number>,
): { lost: number; inversions: number; duplicates: number } {
  const last = new Map<string, number>()
  const known = new Set<string>()
  let inversions = 0
  let duplicates = 0
  for (const { aggregate, n } of seen) {
    const name = `${aggregate} ${n}`
    if (known.has(name)) {
      duplicates++
      continue
    }
    known.add(name)
    if (n !== (last.get(aggregate) ?? 0) + 1) inversions++
    last.set(aggregate, n)
  }
  let lost = 0
  for (const [aggregate, count] of committed) {
    for (let n = 1; n <= count; n++) if (!known.has(`${aggregate} ${n}`)) lost++
  }
  return { lost, inversions, duplicates }
}

export async function committedOf(world: World): Promise<Map<string, number>> {
  const { rows } = await world.pool.query<{ id: string; n: number }>('select id, n from counter')
  return new Map(rows.map(({ id, n }) => [id, n]))
}
