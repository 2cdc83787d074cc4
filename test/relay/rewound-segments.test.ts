import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { freshDatabase, describePostgres } from '../support/postgres.ts'
import { wait } from './service.ts'
import { until } from './world.ts'

const events = { 'step.made': event<{ n: number }>(({ n }) => `a${n % 7}`) }
/** Whoever is idle looks once in this time. */
const LOOK_MS = 1_500

/** Of a server that was promoted and knew nothing of the turn yet. */
const WRITTEN_AGAIN = `update effectively_once.segment s
  set state = case s.no when 1 then 2 else 1 end, since = clock_timestamp() where s.name = 'event' and s.no in (1, 2)`
const SEALED_AGAIN = `update effectively_once.segment s
  set state = case s.no when 1 then 4 else 2 end, since = clock_timestamp() where s.name = 'event' and s.no in (1, 2)`

describePostgres('segments of a database that was put back', () => {
  const ends: (() => unknown)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  it.each([
    ['is read', false],
    ['is read, also when it was sealed once more before anybody looked', true],
  ])(
    'one that was sealed and is written again %s',
    async (_, sealedAgain) => {
      const database = await freshDatabase()
      ends.push(() => database.drop())
      const pool = new pg.Pool({ connectionString: database.url, max: 12 })
      pool.on('error', () => {})
      ends.push(() => pool.end())
      const once = effectivelyOnce({
        namespace: 'back',
        store: pgStore(pool),
        events,
        guard: 'off',
        sweep: false,
        resendFor: '10s',
      })
      ends.push(() => once.close())
      await once.migrate()
      const publish = (from: number, to: number): Promise<unknown> =>
        once.run({ scope: 's', key: `${from}`, input: from }, async ({ publish: send }) => {
          for (let n = from; n < to; n++) await send('step.made', { n })
        })
      const [sent, applied] = [new Set<number>(), new Set<number>()]
      const to = inProcessSink(({ data }) => void sent.add((data as { n: number }).n), { name: 's' })
      const relay = await once.relay({ to, lease: '3s' }).start()
      ends.push(() => relay.stop())
      const on = { 'step.made': async ({ data }: { data: { n: number } }) => void applied.add(data.n) }
      const consumer = await once.consumer('c', { from: once.outbox }, on).start()
      ends.push(() => consumer.stop())
      const left = (): number => 240 - sent.size - applied.size

      await publish(0, 40)
      await until(() => left() === 160, 20_000)
      await until(async () => {
        await once.sweep()
        const sealed = await pool.query(
          `select from effectively_once.segment where name = 'event' and no = 1 and state > 3`,
        )
        return sealed.rowCount === 1
      }, 20_000)
      await wait(LOOK_MS)

      // Nobody reads meanwhile.
      const lock = await pool.connect()
      await lock.query('begin; lock table effectively_once.shard in access exclusive mode')
      await pool.query(WRITTEN_AGAIN)
      await publish(40, 80)
      if (sealedAgain) await pool.query(SEALED_AGAIN)
      await lock.query('commit')
      lock.release()

      await publish(80, 120)
      await until(() => left() === 0, 15_000).catch(() => {})
      expect([sent.size, applied.size]).toEqual([120, 120])
    },
    60_000,
  )
})
