import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event, type Signal } from '../../src/index.ts'
import { inProcessSink } from '../../src/sink/in-process.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { until } from '../relay/world.ts'
import { describePostgres } from '../support/postgres.ts'
import { TABLES } from './catalogue.ts'
import { Database } from './database.ts'
import { Link } from './link.ts'

/** More than a sequence is logged ahead: on the promoted server the numbers of lost events are given again. */
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
    // Its heartbeats are far apart: what they find out comes late.
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
    // On the promoted server: whoever comes later can see it.
    const written = (await once.redrive.audit()).filter(({ action }) => action === 'rewound')
    expect(new Set(written.map(({ detail }) => detail['destination']))).toEqual(new Set(['s', 'consumer c']))
  }, 120_000)
})
