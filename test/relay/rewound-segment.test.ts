import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event } from '../../src/index.ts'
import { inProcessSink } from '../../src/sink/in-process.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { until } from './world.ts'

const events = { 'step.made': event<{ n: number }>(({ n }) => `a${n % 7}`) }
const ends: (() => unknown)[] = []

describePostgres('a failover that lost the end of a segment', () => {
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  it('what is written into that segment afterwards is sent and applied', async () => {
    const database = await freshDatabase()
    ends.push(() => database.drop())
    const pool = new pg.Pool({ connectionString: database.url, max: 10 })
    pool.on('error', () => {})
    ends.push(() => pool.end())
    const once = effectivelyOnce({ namespace: 'segment', store: pgStore(pool), events, guard: 'off', sweep: false })
    ends.push(() => once.close())
    await once.migrate()
    const publish = (from: number, to: number): Promise<unknown> =>
      once.run({ scope: 's', key: `k${from}`, input: from }, async ({ publish: send }) => {
        for (let n = from; n < to; n++) await send('step.made', { n })
      })
    const sent = new Set<number>()
    const applied = new Set<number>()
    const take =
      (into: Set<number>) =>
      async ({ data }: { data: unknown }): Promise<void> =>
        void into.add((data as { n: number }).n)
    const relay = await once.relay({ to: inProcessSink(take(sent), { name: 's' }) }).start()
    ends.push(() => relay.stop())
    const consumer = await once.consumer('c', { from: once.outbox }, { 'step.made': take(applied) }).start()
    ends.push(() => consumer.stop())
    const reach = (count: number): Promise<void> =>
      until(() => sent.size >= count && applied.size >= count, 8_000).catch(() => {})
    await publish(0, 20)
    await reach(20)
    const segment = 'effectively_once.segment'
    // The segment is turned over and sealed, and everybody has looked.
    await pool.query(`begin; create table effectively_once.event_2 (like effectively_once.event including defaults);
      alter table effectively_once.event attach partition effectively_once.event_2 for values in (2);
      update ${segment} set state = 4 where name = 'event' and no = 1;
      insert into ${segment} (name, no, state) values ('event', 2, 2); commit`)
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    // The server that was promoted has not heard of it.
    await pool.query(`begin; alter table effectively_once.event detach partition effectively_once.event_2;
      drop table effectively_once.event_2; delete from ${segment} where name = 'event' and no = 2;
      update ${segment} set state = 2 where name = 'event' and no = 1; commit`)
    await publish(20, 40)
    await reach(40)
    expect([sent.size, applied.size]).toEqual([40, 40])
  }, 40_000)
})
