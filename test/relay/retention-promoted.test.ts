import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import type { PgDriver } from '../../src/store/postgres/driver/driver.ts'
import { PostgresOutboxRetention } from '../../src/store/postgres/outbox-retention.ts'
import { pgDriver, pgStore } from '../../src/store/postgres/pg.ts'
import { DatabaseCopies } from '../support/database-copies.ts'
import { describePostgres } from '../support/postgres.ts'

const events = { 'step.made': event<{ n: number }>(({ n }) => `a${n % 5}`, { ordered: true }) }
const ROUNDS = 4
const PER_ROUND = 4
/** A promoted server is at most so many snapshots behind. */
const BEHIND_MAX = 5
/** A sweep has fewer calls. */
const CALLS_MAX = 24
/** Of the calls of a sweep, every so many-th is the first that reaches the promoted server. All of them: CALLS_STEP=1. */
const CALLS_STEP = Number(process.env['CALLS_STEP'] ?? 15)
const TIMEOUT_MS = 900_000
const SWEEP = { resendForMs: 1, limit: 1_000, others: null }

/** A database that stays as it was at one moment. */
interface Snapshot {
  readonly name: string
  readonly unsent: readonly number[]
}

describePostgres('a sweep that begins on one server and goes on with a promoted one that is behind', () => {
  const servers = new Servers()
  const snapshots: Snapshot[] = []

  beforeAll(async () => {
    let name = await servers.copyOf()
    const keep = async (unsent: readonly number[]): Promise<void> => {
      snapshots.push({ name, unsent })
      name = await servers.copyOf(name)
    }
    await servers.use(name, ({ once }) => once.migrate())
    for (let round = 0; round < ROUNDS; round++) {
      await keep(await servers.use(name, ({ publish }) => publish(round * PER_ROUND)))
      await servers.use(name, async ({ drain, driver }) => {
        await drain()
        await sweep(driver)
      })
      await keep([])
    }
  }, TIMEOUT_MS)
  afterAll(() => servers.close(), TIMEOUT_MS)

  it(
    'loses no event, and publishing goes on, whichever call of the sweep is the first after the promotion',
    async () => {
      const failures: string[] = []
      let promotions = 0
      for (const [ahead, { name }] of snapshots.entries()) {
        for (let behind = Math.max(0, ahead - BEHIND_MAX); behind < ahead; behind++) {
          for (
            let call = 1 + ((ahead + behind) % CALLS_STEP), over = false;
            !over && call < CALLS_MAX;
            call += CALLS_STEP
          ) {
            const before = snapshots[behind] as Snapshot
            const outcome = await promoted(name, before, call).catch((error: unknown) => String(error))
            over = outcome === 'over'
            if (outcome === 'promoted') promotions++
            else if (!over) failures.push(`snapshot ${behind} for ${ahead}, from call ${call} on: ${outcome}`)
          }
        }
      }
      expect(failures).toEqual([])
      expect(promotions).toBeGreaterThan(12)
    },
    TIMEOUT_MS,
  )

  it(
    'turns over no segment there that an open transaction may not know',
    async () => {
      const before = await afterSweeps(1)
      const [first, second] = [await servers.copyOf(before), await servers.copyOf(before)]
      await servers.use(first, (old) =>
        servers.use(second, async (next) => {
          await next.pool.query(`update effectively_once.segment set waiting = '{?}' where state = 1`)
          const writer = await next.pool.connect()
          try {
            await writer.query('begin; lock table effectively_once.event in row exclusive mode')
            await sweep(switched([old.driver, next.driver], 'begin', 1))
            expect(await statesOf(next.pool)).toEqual(['event_1 2', 'event_2 1'])
          } finally {
            await writer.query('rollback')
            writer.release()
          }
        }),
      )
    },
    TIMEOUT_MS,
  )

  it(
    'leaves no table there that nobody knows any more',
    async () => {
      const before = await afterSweeps(2)
      await servers.use(before, ({ pool }) =>
        pool.query(`alter table effectively_once.event detach partition effectively_once.event_1;
          update effectively_once.segment set state = 6 where name = 'event' and no = 1`),
      )
      for (const transaction of [1, 2, 3]) {
        const [first, second] = [await servers.copyOf(before), await servers.copyOf(before)]
        await servers.use(first, (old) =>
          servers.use(second, async (next) => {
            await sweep(switched([old.driver, next.driver], 'end', transaction))
            await sweep(next.driver)
            const { rows } = await next.pool.query(
              `select to_regclass('effectively_once.event_1') is not null as there`,
            )
            expect(rows).toEqual([{ there: false }])
            expect((await statesOf(next.pool))[0]).toMatch(/^event_2/)
          }),
        )
      }
    },
    TIMEOUT_MS,
  )

  async function afterSweeps(count: number): Promise<string> {
    const name = await servers.copyOf()
    await servers.use(name, async ({ once, publish, drain, driver }) => {
      await once.migrate()
      await publish(0)
      await drain()
      for (let i = 0; i < count; i++) await sweep(driver)
    })
    return name
  }

  /** 'over': the sweep had fewer calls. */
  async function promoted(ahead: string, behind: Snapshot, call: number): Promise<string> {
    const [first, second] = [await servers.copyOf(ahead), await servers.copyOf(behind.name)]
    try {
      return await servers.use(first, (old) =>
        servers.use(second, async (next) => {
          let calls = 0
          const now = (): PgDriver<unknown> => (++calls < call ? old.driver : next.driver)
          await sweep({ ...next.driver, query: (text) => now().query(text), begin: (text) => now().begin(text) })
          if (calls < call) return 'over'
          const wanted = [...behind.unsent, ...(await next.publish(1_000))]
          const sent = new Set(await next.drain())
          for (let i = 0; i < 3; i++) if ((await sweep(next.driver)).miscounted.length > 0) return 'miscounted'
          wanted.push(...(await next.publish(2_000)))
          for (const n of await next.drain()) sent.add(n)
          const lost = wanted.filter((n) => !sent.has(n))
          return lost.length > 0 ? `lost: ${lost.join()}` : 'promoted'
        }),
      )
    } finally {
      await servers.drop(first)
      await servers.drop(second)
    }
  }
})

/** Reaches another server from this transaction of the sweep on, or from its end on. */
function switched(
  [old, next]: readonly [PgDriver<unknown>, PgDriver<unknown>],
  from: 'begin' | 'end',
  transaction: number,
): PgDriver<unknown> {
  let begun = 0
  return {
    ...next,
    query: (text) => (begun < transaction ? old : next).query(text),
    begin(text) {
      const isOld = ++begun < transaction || (begun === transaction && from === 'end')
      return (isOld ? old : next).begin(text)
    },
  }
}

async function statesOf(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ state: string }>(
    `select name || '_' || no || ' ' || state as state from effectively_once.segment where name = 'event' order by no`,
  )
  return rows.map(({ state }) => state)
}

function sweep(driver: PgDriver<unknown>): ReturnType<PostgresOutboxRetention<unknown>['sweep']> {
  return new PostgresOutboxRetention(driver, 'effectively_once').sweep(SWEEP)
}

interface World {
  readonly pool: pg.Pool
  readonly once: { migrate(): Promise<unknown> }
  readonly driver: PgDriver<unknown>
  publish(from: number): Promise<number[]>
  /** Sends everything, and tells what was sent. */
  drain(): Promise<readonly number[]>
}

class Servers extends DatabaseCopies {
  async use<T>(name: string, work: (world: World) => Promise<T>): Promise<T> {
    const pool = new pg.Pool({ connectionString: this.urlOf(name), max: 4 })
    pool.on('error', () => {})
    const once = effectivelyOnce({ namespace: 'promoted', store: pgStore(pool), events, guard: 'off', sweep: false })
    const driver = pgDriver(pool) as PgDriver<unknown>
    const publish = async (from: number): Promise<number[]> => {
      const numbers = Array.from({ length: PER_ROUND }, (_, n) => from + n)
      await once.run({ scope: 's', key: `${from}`, input: from }, async ({ publish: send }) => {
        for (const n of numbers) await send('step.made', { n })
      })
      return numbers
    }
    const drain = async (): Promise<readonly number[]> => {
      const sent: number[] = []
      const to = inProcessSink(({ data }) => void sent.push((data as { n: number }).n), { name: 'all' })
      await once.relay({ to, lease: '5s' }).drain()
      return sent
    }
    try {
      return await work({ pool, once, driver, publish, drain })
    } finally {
      await once.close()
      await driver.close()
      await pool.end()
    }
  }
}
