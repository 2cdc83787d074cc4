import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startAlone } from '../../scripts/servers/index.ts'
import { memoryBroker, type MemoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { INSERT, openWorld, until, type World } from './world.ts'

const CONSUMERS = 7
const MESSAGES = 3_000

/** A server of its own: what is tried here would fail everybody else's tests. */
const server = await startAlone('postgres')

describe.skipIf('missing' in server)('the table of locks', () => {
  const url = 'missing' in server ? '' : server.url
  let stranger: pg.Client
  let world: World
  const worlds: World[] = []

  beforeAll(async () => {
    stranger = new pg.Client({ connectionString: url })
    await stranger.connect()
  })
  beforeEach(async () => {
    world = await open()
    await world.pool.query('truncate applied, effectively_once.inbox, effectively_once.dead_letter')
  })
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((one) => one.close()))
  })
  afterAll(async () => {
    await stranger.end()
    if (!('missing' in server)) await server.stop()
  })

  async function open(): Promise<World> {
    const opened = await openWorld(url, 12)
    worlds.push(opened)
    return opened
  }

  async function locks(): Promise<{ held: number; table: number }> {
    const { rows } = await stranger.query<{ held: number; table: number }>(
      `select (select count(*)::int4 from pg_locks where locktype = 'advisory') as held,
         current_setting('max_locks_per_transaction')::int4 * current_setting('max_connections')::int4 as table`,
    )
    return rows[0] as { held: number; table: number }
  }

  const fill = (broker: MemoryBroker, name: string): void => {
    const message = (_: unknown, n: number) => ({ id: `${name} ${n}`, aggregate: `a${n}`, data: { n } })
    broker.publish(...Array.from({ length: MESSAGES }, message))
  }

  /** Each begins the transactions it can, and stays in them until everybody has. */
  async function storm(consumers: readonly World[]): Promise<{ most: number; table: number }> {
    let go: () => void = () => {}
    let gate: Promise<void> | null = null
    const brokers = consumers.map(() => memoryBroker())
    const settled = (): boolean => brokers.every(({ left }) => left === 0)
    const on = { 'step.made': async () => void (await gate) }
    const running = await Promise.all(
      consumers.map(({ once }, i) => once.consumer(`c${i}`, { from: brokers[i]!.source }, on).start()),
    )
    // Handlers are quick at first: batches grow.
    for (const [i, broker] of brokers.entries()) fill(broker, `quick ${i}`)
    await until(settled, 60_000)
    gate = new Promise<void>((resolve) => (go = resolve))
    for (const [i, broker] of brokers.entries()) fill(broker, `slow ${i}`)
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    const { held, table } = await locks()
    await stranger.query('create table stranger (id bigint primary key); drop table stranger')
    go()
    await until(settled, 60_000)
    await Promise.all(running.map((consumer) => consumer.stop()))
    return { most: held, table }
  }

  const told = (kind: string): number =>
    worlds.flatMap(({ signals }) => signals).filter((signal) => signal.kind === kind).length

  it('has room for strangers beside seven consumers, in seven processes or in one', async () => {
    const seven = [world]
    while (seven.length < CONSUMERS) seven.push(await open())
    for (const [consumers, share] of [
      [seven, CONSUMERS],
      [Array.from({ length: CONSUMERS }, () => world), 1],
    ] as const) {
      await world.pool.query('truncate applied, effectively_once.inbox')
      const { most, table } = await storm(consumers)
      expect(most).toBeGreaterThan(0)
      expect(most).toBeLessThanOrEqual((table * share) / 16)
      expect(await world.count('effectively_once.inbox')).toBe(CONSUMERS * MESSAGES * 2)
      expect([told('troubled'), told('lockTableFull')]).toEqual([0, 0])
    }
  }, 180_000)

  it('is full: consumers take less, tell it, and lose nothing', async () => {
    const broker = memoryBroker()
    const consumer = await world.once
      .consumer(
        'full',
        { from: broker.source, attempts: 2 },
        { 'step.made': async (event, { tx }) => void (await tx.query(INSERT, [event.id, event.subject, 1])) },
      )
      .start()
    const hogs: pg.Client[] = []
    // Until nothing fits in any more.
    for (let taken = 1, full = false; !full;) {
      const hog = new pg.Client({ connectionString: url })
      hog.on('error', () => {})
      await hog.connect()
      hogs.push(hog)
      try {
        for (;;) {
          await hog.query('select pg_advisory_lock(n) from generate_series($1::int8, $2::int8) n', [taken, taken + 500])
          taken += 501
        }
      } catch (error) {
        expect((error as { code?: string }).code).toBe('53200')
        full = true
      }
    }
    fill(broker, 'full')
    await until(() => told('lockTableFull') > 0, 30_000)
    // There is room again, not much: what the hog took last.
    await hogs[0]!.query('select pg_advisory_unlock(n) from generate_series(1, 300) n')
    await until(() => broker.left === 0, 60_000)
    await consumer.stop()
    await Promise.all(hogs.map((hog) => hog.end()))
    expect(await world.count('applied')).toBe(MESSAGES)
    expect(Math.max(...(await world.applied()).values())).toBe(1)
    expect([told('failed'), told('deadLetter')]).toEqual([0, 0])
    expect(told('lockTableFull')).toBeLessThan(40)
  }, 120_000)
})
