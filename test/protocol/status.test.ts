import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import { pgStore } from '../../src/entry/pg.ts'
import * as statements from '../../src/store/postgres/sql/status.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeAll } from '../support/stores.ts'
import { until } from '../support/until.ts'

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type Store = SqlStore<any>

const events = { 'order.placed': event<{ order: string }>(({ order }) => order) }
const down = async (): Promise<never> => Promise.reject(new Error('down'))

/** Everything that the store's own place must answer. */
function statusOf(store: () => Store): void {
  it('tells its operations, lag, parked events, dead letters and sizes', async () => {
    const open = (namespace: string) =>
      effectivelyOnce({ namespace, store: store(), events, guard: 'off', sweep: false })
    const once = open('seen')
    expect(await once.status()).toMatchObject({
      operations: { running: 0, abandoned: 0, unknown: 0, oldestAbandonedMs: null },
      destinations: [],
      consumers: [],
      deadLetters: { parked: 0, oldestMs: null },
      unsent: { events: 0, oldestMs: null },
    })
    expect(await once.healthy()).toEqual({ healthy: true, problems: [] })
    const publish = (order: string): Promise<unknown> =>
      once.run({ scope: 's', key: order, input: 1 }, (op) => op.publish('order.placed', { order }))
    for (const order of ['a', 'b']) await publish(order)
    const before = await once.status()
    expect(before.unsent).toEqual({ events: 2, oldestMs: expect.any(Number) })
    const refuses = inProcessSink(
      ({ data }) => {
        if ((data as { order: string }).order === 'a') throw new Error('refused')
      },
      { name: 'hook' },
    )
    await once.relay({ to: refuses, attempts: 1 }).drain()
    const consumer = once.consumer('mails', { from: once.outbox, attempts: 1 }, { 'order.placed': down })
    await consumer.drain()
    await publish('c')
    await once.run({ scope: 's', key: 'abandoned', input: 1, lease: '5s' }, down).catch(() => {})
    const wire = { scope: 's', key: 'unknown', input: 1, lease: '5s' } as const
    for (let attempt = 0; attempt < 2; attempt++)
      await once.run(wire, (op) => op.step('wire', down, { keyed: false })).catch(() => {})
    const status = await once.status()
    expect(status.operations).toMatchObject({ running: 0, abandoned: 1, unknown: 1 })
    expect(status.operations.oldestAbandonedMs).toBeGreaterThanOrEqual(0)
    const [hook] = status.destinations.filter(({ name }) => name === 'hook')
    expect(hook).toMatchObject({ waiting: 1, parked: 1 })
    expect(hook!.oldestMs).toBeLessThan(60_000)
    expect(status.consumers).toMatchObject([{ name: 'mails', letters: 2 }])
    expect(status.deadLetters).toEqual({ parked: 2, oldestMs: expect.any(Number) })
    expect(status.sizes.every(({ bytes }) => bytes >= 0)).toBe(true)
    const { healthy, problems } = await once.healthy()
    expect(healthy).toBe(false)
    expect(problems).toEqual([
      'operations with an unknown outcome: 1',
      "parked events for 'hook': 1",
      'dead letters: 2',
    ])
    const another = await open('another').status()
    expect([another.operations.unknown, another.destinations, another.consumers]).toEqual([0, [], []])
  })

  it('tells the errors of what is tried again', async () => {
    const once = effectivelyOnce({ namespace: 'retried', store: store(), events, guard: 'off', sweep: false })
    await once.run({ scope: 's', key: 'r', input: 1 }, (op) => op.publish('order.placed', { order: 'r' }))
    const full = inProcessSink(() => Promise.reject(new Error('the mailbox is full')), { name: 'box' })
    const relay = await once.relay({ to: full }).start()
    const consumer = await once.consumer('late', { from: once.outbox }, { 'order.placed': down }).start()
    const failing = async (): Promise<boolean> => {
      const { destinations, consumers } = await once.status()
      return destinations.some(({ retrying }) => retrying > 0) && consumers.some(({ retrying }) => retrying > 0)
    }
    try {
      await until(failing)
    } finally {
      await Promise.all([relay.stop(), consumer.stop()])
    }
    const { destinations, consumers } = await once.status()
    const [box] = destinations.filter(({ name }) => name === 'box')
    expect(box).toMatchObject({ parked: 0, retrying: 1, error: expect.stringContaining('the mailbox is full') })
    expect((await once.healthy()).problems).toContain("events wait for 'box', and no relay runs")
    expect(consumers).toMatchObject([{ name: 'late', letters: 0, retrying: 1, error: expect.stringContaining('down') }])
  })
}

describe('the status of a service, in memory', () => {
  const store = memoryStore()
  statusOf(() => store)
})

describeAll('the status of a service', (place) => {
  statusOf(() => place.bed.store)

  it('knows sizes', async () => {
    expect((await place.once({ namespace: 'sized' }).status()).sizes.length).toBeGreaterThan(0)
  })

  it('is ready while it is open and migrated', async () => {
    const once = place.once({ namespace: 'ready' })
    expect(await once.ready()).toEqual({ ready: true, reasons: [] })
  })
})

describePostgres('a probe', (database) => {
  it('is told what keeps requests from being served', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    const once = effectivelyOnce({ namespace: 'probe', store: pgStore(pool), guard: 'off', sweep: false })
    expect((await once.ready()).reasons[0]).toMatch(/^the schema is at version 0, and this code needs \d+$/)
    await once.migrate()
    pool.on('error', () => {})
    expect(await once.ready()).toEqual({ ready: true, reasons: [] })
    await pool.end()
    expect(await once.ready()).toMatchObject({ ready: false, reasons: [expect.stringMatching(/did not answer/)] })
    await once.close()
    expect(await once.ready()).toEqual({ ready: false, reasons: ['the instance is closed'] })
  })

  it('costs the database as little with many records and dead letters as with few', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 })
    const once = effectivelyOnce({ namespace: 'large', store: pgStore(pool), events, guard: 'off', sweep: false })
    await once.migrate()
    await pool.query(FILL_RECORDS, [200_000])
    await pool.query(
      `insert into effectively_once.consumer (name, inbox_ms, remember_ms, letters_ms) values ('c', 1, 1, 1)`,
    )
    await pool.query(FILL_LETTERS, [50_000])
    await pool.query('vacuum analyze effectively_once.record, effectively_once.dead_letter')
    const schema = '"effectively_once"'
    let blocks = 0
    for (const [text, values] of [
      [statements.operationsStatusSql(schema), ['large']],
      [statements.destinationsStatusSql(schema), [0]],
      [statements.unsentStatusSql(schema), [0]],
      [statements.consumersStatusSql(schema), []],
      [statements.sizesStatusSql(schema), [schema]],
    ] as const) {
      const { rows } = await pool.query(`explain (analyze, buffers, format json) ${text}`, [...values])
      const { Plan: plan } = (rows[0] as Record<string, [{ Plan: Record<string, number> }]>)['QUERY PLAN']![0]
      blocks += (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)
    }
    // The tables have 5,000 blocks and more.
    await pool.end()
    expect(blocks).toBeLessThan(1_500)
  }, 120_000)
})

const FILL_RECORDS = `insert into effectively_once.record (id, scope, fp, fp_version, state, attempt, token, life, expires_at, forget_at)
select md5('id' || n)::uuid, md5('s')::uuid, md5('fp')::uuid, 1, 2, 1, n, n, now() + interval '1 day', now() + interval '8 days'
  from generate_series(1, $1::int8) n`

/** The first half is settled: the oldest parked one is not among them. */
const FILL_LETTERS = `insert into effectively_once.dead_letter (id, attempts, state, consumer, source, message, type, reason, fingerprint, timeline, causes, headers, body)
select md5('l' || n)::uuid, 1, case when n <= $1::int8 / 2 then 4 else 1 end, 'c', 's', n::text, 't', 'failed', 'f', '[]', '[]', '{}', repeat('x', 200)
  from generate_series(1, $1::int8) n`
