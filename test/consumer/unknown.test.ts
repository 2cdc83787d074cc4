import pg from 'pg'
import { expect, it } from 'vitest'
import { effectivelyOnce, event, type ConsumerOptions, type Signal, type SqlStore } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'
import { until } from './world.ts'

const older = { 'order.placed': event<{ n: number }>(({ n }) => `o${n}`) }
const newer = { ...older, 'order.changed': event<{ n: number }>(({ n }) => `o${n}`) }

interface Counts {
  readonly applied: number
  readonly parked: number
  readonly both: number
}

/** Two versions of a service side by side, of which one does not know a type yet. */
async function sideBySide(stores: () => SqlStore<unknown>): Promise<Counts> {
  const applied = new Set<string>()
  const v2 = effectivelyOnce({ namespace: 'n', store: stores(), events: newer, guard: 'off', sweep: false })
  const v1 = effectivelyOnce({ namespace: 'n', store: stores(), events: older, guard: 'off', sweep: false })
  try {
    await v2.migrate()
    for (let n = 0; n < 40; n++) {
      await v2.run({ scope: 's', key: `k${n}`, input: n }, async ({ publish }) => {
        await publish(n % 2 === 0 ? 'order.placed' : 'order.changed', { n })
      })
    }
    const see = async ({ id }: { id: string }): Promise<void> => void applied.add(id)
    const old = v1.consumer('c', { from: v1.outbox }, { 'order.placed': see })
    await old.drain()
    const young = v2.consumer('c', { from: v2.outbox }, { 'order.placed': see, 'order.changed': see })
    await young.drain()
    const letters = await v2.deadLetters.list({ consumer: 'c' })
    for (const { reason } of letters) expect(reason).toBe('unknownType')
    const both = letters.filter(({ message }) => applied.has(message)).length
    return { applied: applied.size, parked: letters.length, both }
  } finally {
    await v1.close()
    await v2.close()
  }
}

/** The first of a line comes last. What is applied, in order. */
async function outOfOrder(store: SqlStore<unknown>): Promise<readonly string[]> {
  const applied: string[] = []
  const broker = memoryBroker()
  const once = effectivelyOnce({ namespace: 'n', store, guard: 'off', sweep: false })
  try {
    await once.migrate()
    const consumer = once.consumer(
      'line',
      { from: broker.source, onFailure: 'skip' },
      { 'order.placed': async ({ id }) => void applied.push(id) },
    )
    const placed = { aggregate: 'a', type: 'order.placed' }
    broker.publish({ aggregate: 'a', type: 'order.changed', id: 'm2', previous: 'm1' })
    broker.publish({ ...placed, id: 'm3', previous: 'm2' })
    await consumer.start()
    await new Promise((resolve) => setTimeout(resolve, 300))
    broker.publish({ ...placed, id: 'm1' })
    await until(() => broker.left === 0)
    await consumer.stop()
    const skipped = await once.deadLetters.list({ consumer: 'line', state: 'skipped' })
    expect(skipped.map(({ message, reason }) => [message, reason])).toEqual([['m2', 'unknownType']])
    return applied
  } finally {
    await once.close()
  }
}

/** One line of events, of which every other one has no handler. The first one with a handler fails once. */
async function alternating(store: SqlStore<unknown>, first: 'known' | 'unknown'): Promise<readonly string[]> {
  const applied: string[] = []
  const broker = memoryBroker()
  const once = effectivelyOnce({ namespace: 'n', store, guard: 'off', sweep: false })
  try {
    await once.migrate()
    let failures = first === 'known' ? 1 : 0
    const on = {
      'order.placed': async ({ id }: { id: string }) => {
        if (failures-- > 0) throw new Error('not yet')
        applied.push(id)
      },
    }
    const consumer = once.consumer(`alternating ${first}`, { from: broker.source }, on)
    const types = ['order.changed', 'order.placed']
    if (first === 'known') types.reverse()
    const messages = Array.from({ length: 8 }, (_, n) => ({ id: `m${n}`, aggregate: 'a', type: types[n % 2]! }))
    broker.publish(...messages)
    await consumer.start()
    await until(() => broker.left === 0)
    await consumer.stop()
    const letters = await once.deadLetters.list({ consumer: `alternating ${first}` })
    return [...applied, '|', ...letters.map(({ message }) => message)]
  } finally {
    await once.close()
  }
}

const IN_ORDER = {
  known: ['m0', '|', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7'],
  unknown: ['|', 'm0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7'],
}

describePostgres('a type that this version does not know', (database) => {
  it.each(['known', 'unknown'] as const)('is parked in its place among others, the first is %s', async (first) => {
    const pool = new pg.Pool({ connectionString: database.url })
    pool.on('error', () => {})
    expect(await alternating(pgStore(pool) as SqlStore<unknown>, first)).toEqual(IN_ORDER[first])
    await pool.end()
  })
  it('is parked, not lost', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    pool.on('error', () => {})
    expect(await sideBySide(() => pgStore(pool) as SqlStore<unknown>)).toEqual({ applied: 20, parked: 20, both: 0 })
    await pool.end()
  })
  it('is not skipped before its predecessor', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    pool.on('error', () => {})
    expect(await outOfOrder(pgStore(pool) as SqlStore<unknown>)).toEqual(['m1', 'm3'])
    await pool.end()
  })
})

describeSqlite('a type that this version does not know', (lab) => {
  it.each(['known', 'unknown'] as const)('is parked in its place among others, the first is %s', async (first) => {
    expect(await alternating(lab.bare({ file: lab.file() }), first)).toEqual(IN_ORDER[first])
  })
  it('is parked, not lost', async () => {
    const file = lab.file()
    const store = (): SqlStore<unknown> => lab.bare({ file })
    expect(await sideBySide(store)).toEqual({ applied: 20, parked: 20, both: 0 })
  })
  it('is not skipped before its predecessor', async () => {
    expect(await outOfOrder(lab.bare({ file: lab.file() }))).toEqual(['m1', 'm3'])
  })
})

type Unknown = ConsumerOptions<unknown, undefined>['unknown']

async function parkedOf(unknown: Unknown | 'default'): Promise<readonly string[]> {
  const broker = memoryBroker()
  const once = effectivelyOnce({ namespace: 'n', store: memoryStore(), guard: 'off', sweep: false })
  const types = ['order.placed', 'invoice.paid', 'invoice.void.late', 'invoice', 'my.invoice.paid', 'order+placed']
  broker.publish(...types.map((type) => ({ id: type, type })))
  const options = unknown === 'default' ? { from: broker.source } : { from: broker.source, unknown }
  await once.consumer('c', options, { 'order.placed': async () => {} }).drain()
  expect(broker.left).toBe(0)
  const letters = await once.deadLetters.list({ consumer: 'c' })
  await once.close()
  return letters.map(({ message }) => message).toSorted()
}

const others = ['invoice', 'invoice.paid', 'invoice.void.late', 'my.invoice.paid', 'order+placed']
it.each<[string, Unknown | 'default', readonly string[]]>([
  ['everything by default', 'default', others],
  ['everything', 'park', others],
  ['nothing', 'ignore', []],
  ['what no pattern names', { ignore: ['invoice.*'] }, ['invoice', 'my.invoice.paid', 'order+placed']],
  ['what no name names', { ignore: ['invoice', 'order.placed'] }, others.filter((type) => type !== 'invoice')],
  ['everything, of no pattern', { ignore: [] }, others],
])('parks %s', async (_, unknown, parked) => {
  expect(await parkedOf(unknown)).toEqual(parked)
})

it.each([
  'keep',
  null,
  {},
  { ignore: 'invoice.*' },
  { ignore: [''] },
  { ignore: [1] },
  { ignore: ['a'], park: ['b'] },
] as unknown[])('refuses %j', (unknown) => {
  const once = effectivelyOnce({ namespace: 'n', store: memoryStore(), guard: 'off', sweep: false })
  const options = { from: memoryBroker().source, unknown: unknown as 'park' }
  expect(() => once.consumer('c', options, { a: async () => {} })).toThrow(/ONCE_OPTION_INVALID/)
})

it('tells at the start which types of the catalogue nobody handles, and what becomes of them', async () => {
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const options = { namespace: 'n', store: memoryStore(), events: newer, guard: 'off', sweep: false, observe } as const
  const once = effectivelyOnce(options)
  const on = { 'order.placed': async () => {} }
  for (const unknown of ['park', 'ignore', { ignore: ['order.ch*'] }] as const) {
    const consumer = once.consumer('c', { from: once.outbox, unknown }, on)
    await consumer.drain()
    await consumer.drain()
  }
  await once.consumer('all', { from: once.outbox }, { ...on, 'order.changed': async () => {} }).drain()
  await once.close()
  expect(signals.filter(({ kind }) => kind === 'unhandled')).toEqual([
    { kind: 'unhandled', consumer: 'c', types: ['order.changed'], fate: 'parked' },
    { kind: 'unhandled', consumer: 'c', types: ['order.changed'], fate: 'ignored' },
    { kind: 'unhandled', consumer: 'c', types: ['order.changed'], fate: 'ignored' },
  ])
})

it('in memory, a type without a handler is not skipped before its predecessor', async () => {
  expect(await outOfOrder(memoryStore() as SqlStore<unknown>)).toEqual(['m1', 'm3'])
})
