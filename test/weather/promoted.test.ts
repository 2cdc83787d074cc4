import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event, type OutgoingEvent, type Sink, type Signal } from '../../src/index.ts'
import { inProcessSink } from '../../src/sink/in-process.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { until } from '../relay/world.ts'
import { describePostgres } from '../support/postgres.ts'
import { TABLES } from './catalogue.ts'
import { Cluster } from './cluster.ts'
import { Database } from './database.ts'
import { Link } from './link.ts'

/**
 * More events than PostgreSQL logs ahead for a sequence. So the promoted server assigns the numbers of lost events
 * again.
 */
const LOST = 80
const events = { 'step.made': event<{ n: number }>(() => 'one') }

describePostgres('a server that was promoted and lacks the last transactions', () => {
  const ends: (() => unknown)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  it('sends what is published there in order, from the first one on', async () => {
    let promoted: number | undefined
    const database = await Database.start((port) => (promoted = port))
    ends.push(() => database.stop())
    await database.primary.rows(TABLES)
    const link = await Link.open(database.primary.port)
    ends.push(() => link.close())
    const pool = new pg.Pool({ connectionString: link.through(database.primary.url), max: 8 })
    pool.on('error', () => {})
    ends.push(() => pool.end())
    const signals: Signal[] = []
    const observe = (signal: Signal): void => void signals.push(signal)
    const once = effectivelyOnce({ namespace: 'p', store: pgStore(pool), events, guard: 'off', sweep: false, observe })
    ends.push(() => once.close())
    await once.migrate()
    let at = 0
    const publish = (count: number): Promise<unknown> =>
      once.run({ scope: 's', key: `${at}`, input: at }, async ({ publish: send }) => {
        for (let n = at; n < at + count; n++) await send('step.made', { n })
      })
    const publishAnyway = async (count: number): Promise<void> => {
      await until(
        () =>
          publish(count).then(
            () => true,
            () => false,
          ),
        30_000,
      )
      at += count
    }
    const sent: number[] = []
    const applied: number[] = []
    const sink = inProcessSink(({ data }) => void sent.push((data as { n: number }).n), { name: 's' })
    // The heartbeats are far apart, so they detect the promotion late.
    const relay = await once.relay({ to: sink, lease: '60s' }).start()
    ends.push(() => relay.stop())
    const on = { 'step.made': async ({ data }: { data: { n: number } }) => void applied.push(data.n) }
    const consumer = await once.consumer('c', { from: once.outbox }, on).start()
    ends.push(() => consumer.stop())
    const through = (): boolean => [sent, applied].every((seen) => new Set(seen).size === at)
    await publishAnyway(10)
    await until(through, 10_000)

    const promotion = database.promoteAsynchronous(async () => {
      await publishAnyway(LOST)
      await until(through, 10_000)
    })
    await until(() => promoted !== undefined, 60_000)
    link.moved(promoted as unknown as number)
    const before = at
    await publishAnyway(LOST)
    await until(through, 30_000)
    await promotion
    for (const seen of [sent, applied]) {
      const first = [...new Set(seen)].filter((n) => n >= before)
      expect(first).toEqual(first.toSorted((a, b) => a - b))
    }
    expect(signals.some((of) => of.kind === 'troubled' && String(of.error).includes('gone back'))).toBe(true)
    // The entries are on the promoted server, where an operator can read them later.
    const written = (await once.redrive.audit()).filter(({ action }) => action === 'rewound')
    expect(new Set(written.map(({ detail }) => detail['destination']))).toEqual(new Set(['s', 'consumer c']))
  }, 120_000)

  /** Starts a relay whose sink has accepted one event, and returns its verdict on request. */
  async function openRelay(moved: (port: number) => void) {
    const database = await Database.start(moved)
    ends.push(() => database.stop())
    const link = await Link.open(database.primary.port)
    ends.push(() => link.close())
    const pool = new pg.Pool({ connectionString: link.through(database.primary.url), max: 8 })
    pool.on('error', () => {})
    ends.push(() => pool.end())
    const once = effectivelyOnce({ namespace: 'p', store: pgStore(pool), events, guard: 'off', sweep: false })
    ends.push(() => once.close())
    await once.migrate()
    const publish = (n: number): Promise<unknown> =>
      once.run({ scope: 's', key: `${n}`, input: n }, ({ publish: send }) => send('step.made', { n }))
    const sent: OutgoingEvent[] = []
    let tell = (): void => {}
    const told = new Promise<void>((resolve) => (tell = resolve))
    const sink: Sink = {
      name: 's',
      proves: 'accepted',
      dedupes: false,
      orders: true,
      async send(taken) {
        sent.push(...taken)
        await told
        return taken.map(() => ({ kind: 'sent' }))
      },
    }
    const relay = await once.relay({ to: sink, lease: '60s' }).start()
    ends.push(() => relay.stop())
    await publish(1)
    await until(() => sent.length === 1, 10_000)
    return { database, link, publish, sent, tell }
  }

  it('is sent again what was under way, under an id that no broker knows', async () => {
    let promoted: number | undefined
    const { database, link, sent, tell } = await openRelay((port) => (promoted = port))
    const promotion = database.promoteSynchronous()
    await until(() => promoted !== undefined, 60_000)
    link.moved(promoted as unknown as number)
    tell()
    await until(() => sent.length === 2, 30_000)
    await promotion
    const [before, after] = sent
    expect(after?.id).toBe(before?.id)
    expect(after?.brokerId).toBe(before?.brokerId)
    expect(before?.deduplicationId).toBe(before?.id)
    expect(after?.deduplicationId).toBe(`${before?.id}:t2`)
  }, 120_000)

  it('but not of a server that was only started again', async () => {
    const { database, publish, sent, tell } = await openRelay(() => {})
    await database.restartAtOnce()
    tell()
    await until(
      () =>
        publish(2).then(
          () => true,
          () => false,
        ),
      30_000,
    )
    await until(() => sent.length > 1, 30_000)
    expect(sent.map(({ data }) => (data as { n: number }).n)).toEqual([1, 2])
  }, 120_000)

  it('has no identity before it is promoted: as a standby it would pass for a server that was started again', async () => {
    const primary = await Cluster.create()
    ends.push(() => primary.remove())
    const standby = await primary.standby()
    ends.push(() => standby.remove())
    const identity = (url: string): Promise<unknown> => {
      const pool = new pg.Pool({ connectionString: url, max: 1 })
      pool.on('error', () => {})
      ends.push(() => pool.end())
      return pgStore(pool).outbox.identity!()
    }
    expect(await identity(primary.url)).toMatchObject({ timeline: '' })
    await expect(identity(standby.url)).rejects.toMatchObject({ name: 'OnceError' })
    await primary.stopAtOnce()
    await standby.promote()
    expect(await identity(standby.url)).toMatchObject({ timeline: '2' })
  }, 120_000)
})
