import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { startWireMeter, type WireMeter } from '../bench/support/wire-meter.ts'
import { effectivelyOnce, event, final } from '../src/index.ts'
import type { Once } from '../src/index.ts'
import { instanceOf } from '../src/once/instance.ts'
import { pgStore, type PgTx } from '../src/store/postgres/pg.ts'
import { describePostgres } from './support/postgres.ts'

const events = { 'charge.created': event<{ id: string }>(({ id }) => id) }
type Charges = Once<PgTx<pg.PoolClient>, typeof events>

const INSERT = 'insert into charge (amount) values ($1) returning id'
const SCOPE = 'merchant-1'

/**
 * What each kind of operation costs, counted on the wire: `begin` and `commit` are statements, a trip is a wait for the
 * server. A figure that grows is a decision, not an accident.
 */
describePostgres('statements and trips', (database) => {
  let meter: WireMeter
  let pool: pg.Pool
  let once: Charges

  beforeAll(async () => {
    meter = await startWireMeter(database.url)
    pool = new pg.Pool({ connectionString: meter.url, max: 4 })
    pool.on('error', () => {})
    once = open()
    await once.migrate()
    await entered(once)
    await pool.query(
      'create table charge (id bigint generated always as identity primary key, amount int check (amount > 0))',
    )
  })
  afterAll(async () => {
    await once.close()
    await pool.end()
    await meter.close()
  })
  beforeEach(() => meter.reset())

  const open = (): Charges =>
    effectivelyOnce({ namespace: 'counts', store: pgStore(pool), events, guard: 'off', sweep: false })

  /** It knows its namespace's number, as after its first operation. */
  const entered = async (of: Charges = open()): Promise<Charges> => {
    await instanceOf(of).core.namespace.enter()
    return of
  }

  const charge = (of: Charges, key: string, published = 1, amount = 100) =>
    of.run({ scope: SCOPE, key, input: { amount } }, async ({ tx, publish }) => {
      const { rows } = await tx.query<{ id: string }>(INSERT, [amount])
      for (let i = 0; i < published; i++) await publish('charge.created', { id: rows[0]!.id })
      return rows[0]
    })

  /** The rollback of a transaction that only looked is not awaited by its caller; it is counted all the same. */
  const settled = async () => {
    await new Promise((resolve) => setTimeout(resolve, 100))
    return { ...meter.count }
  }

  it.each([0, 1, 3])('atomic, with one statement and %i events: 3 trips', async (published) => {
    await charge(once, randomUUID(), published)
    // begin + claim, the handler's own, completion + commit
    expect(await settled()).toEqual({ trips: 3, statements: 5 })
  })

  it('the first operation of an instance that publishes: one trip more, for the number of its namespace', async () => {
    const other = open()
    await charge(other, randomUUID())
    expect(await settled()).toEqual({ trips: 4, statements: 6 })
    meter.reset()
    await charge(other, randomUUID())
    expect(await settled()).toEqual({ trips: 3, statements: 5 })
  })

  it('replay from memory, from the second retry on: none', async () => {
    const key = randomUUID()
    await charge(once, key)
    await charge(once, key)
    await settled()
    meter.reset()
    await charge(once, key)
    expect(await settled()).toEqual({ trips: 0, statements: 0 })
  })

  it('replay from the database: one trip before the answer, one behind it', async () => {
    const key = randomUUID()
    await charge(once, key)
    const other = await entered()
    meter.reset()
    const answered = charge(other, key).then(() => ({ ...meter.count }))
    expect(await answered).toMatchObject({ trips: expect.toSatisfy((trips: number) => trips <= 2) })
    // begin + claim with its answer, rollback
    expect(await settled()).toEqual({ trips: 2, statements: 3 })
  })

  it('replays from the database in a row: one trip each, and one at the end', async () => {
    const keys = Array.from({ length: 10 }, () => randomUUID())
    for (const key of keys) await charge(once, key)
    const other = await entered()
    meter.reset()
    for (const key of keys) await charge(other, key)
    // begin + claim, nine times rollback + begin + claim, rollback
    expect(await settled()).toEqual({ trips: 11, statements: 30 })
    expect(pool.idleCount).toBe(pool.totalCount)
  })

  it('another input under the same key: as a replay', async () => {
    const key = randomUUID()
    await charge(once, key)
    const other = await entered()
    meter.reset()
    await expect(charge(other, key, 1, 7)).rejects.toMatchObject({ code: 'ONCE_MISMATCH' })
    expect(await settled()).toEqual({ trips: 2, statements: 3 })
  })

  it.each([
    ['same', 'one trip', 1],
    // Locks alone refuse nobody unless they are seen again.
    ['other', 'four trips', 4],
  ])('a duplicate with the %s input while it runs elsewhere: %s and a rollback', async (input, _, trips) => {
    const key = randomUUID()
    await once.run({ scope: SCOPE, key, input: { amount: 100 } }, async () => {
      const other = await entered()
      meter.reset()
      const code = input === 'same' ? 'ONCE_IN_FLIGHT' : 'ONCE_MISMATCH'
      await expect(charge(other, key, 1, input === 'same' ? 100 : 7)).rejects.toMatchObject({ code })
      expect(await settled()).toEqual({ trips: trips + 1, statements: trips + 2 })
    })
  })

  it('a duplicate in this process: none', async () => {
    const key = randomUUID()
    await once.run({ scope: SCOPE, key, input: { amount: 100 } }, async () => {
      meter.reset()
      // Not inside the first one: that would be nested.
      await new Promise<void>((resolve) => outside(() => void expectBusy(key).then(resolve)))
      expect(meter.count).toEqual({ trips: 0, statements: 0 })
    })
  })
  const queue: (() => void)[] = []
  const timer = setInterval(() => queue.shift()?.(), 5)
  afterAll(() => clearInterval(timer))
  const outside = (work: () => void): void => void queue.push(work)
  const expectBusy = (key: string) => expect(charge(once, key)).rejects.toMatchObject({ code: 'ONCE_IN_FLIGHT' })

  it('a refusal (4xx): rolled back, then stored by one statement', async () => {
    const refused = once.run({ scope: SCOPE, key: randomUUID(), input: null }, async ({ tx }) => {
      await tx.query(INSERT, [100])
      throw final({ status: 402 })
    })
    await expect(refused).rejects.toMatchObject({ status: 402 })
    // begin + claim, the handler's own, rollback, claim and answer
    expect(await settled()).toEqual({ trips: 4, statements: 5 })
  })

  it('a failure: rolled back', async () => {
    await expect(charge(once, randomUUID(), 1, -1)).rejects.toMatchObject({ code: '23514' })
    expect(await settled()).toEqual({ trips: 3, statements: 4 })
  })

  it('leased, with one step: 5 trips', async () => {
    await once.run({ scope: SCOPE, key: randomUUID(), input: null, lease: '30s' }, async ({ step, commit }) => {
      await step('pay', async () => 1)
      return commit(async ({ tx, publish }) => {
        const { rows } = await tx.query<{ id: string }>(INSERT, [100])
        await publish('charge.created', { id: rows[0]!.id })
      })
    })
    // claim, step, begin + deadline, the handler's own, completion + commit
    expect(await settled()).toEqual({ trips: 5, statements: 7 })
  })

  it.each([1, 10, 100])('batched, %i requests: 3 trips, one statement each and four more', async (requests) => {
    const batch = once.batched({
      statement: (amount: number) => ({ sql: INSERT, values: [amount] }),
      respond: ([row], _amount, { publish }) => void publish('charge.created', { id: String(row!['id']) }),
    })
    // The first batch asks for the server's lock budget.
    await batch({ scope: SCOPE, key: randomUUID(), input: 1 })
    meter.reset()
    await Promise.all(Array.from({ length: requests }, () => batch({ scope: SCOPE, key: randomUUID(), input: 1 })))
    // begin + claims, effects, completion + commit
    expect(await settled()).toEqual({ trips: 3, statements: requests + 4 })
  })
})
