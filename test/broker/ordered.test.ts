import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event } from '../../src/index.ts'
import { natsSink } from '../../src/broker/nats/sink.ts'
import { natsSource } from '../../src/broker/nats/source.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { until } from '../relay/world.ts'
import { freshDatabase } from '../support/postgres.ts'
import { describeServers } from './support/describe-broker.ts'

const EVENTS = 3_000
const AGGREGATES = 10
const events = { 'step.made': event<{ n: number }>(({ n }) => `a${n % AGGREGATES}`, { ordered: true }) }

describeServers('ordered events of NATS', ['postgres', 'nats'], ({ nats }) => {
  const ends: (() => unknown)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  /** As a process of its own would have it. */
  async function instance(url: string) {
    const pool = new pg.Pool({ connectionString: url, max: 12 })
    ends.push(() => pool.end())
    const connection: NatsConnection = await connect({ servers: nats })
    ends.push(() => connection.close())
    const once = effectivelyOnce({ namespace: 'o', store: pgStore(pool), events, guard: 'off', sweep: false })
    ends.push(() => once.close())
    return { once, pool, connection }
  }

  it('stay in order with three at work, as with one', async () => {
    const database = await freshDatabase()
    ends.push(() => database.drop())
    const stream = `three_${Math.random().toString(36).slice(2)}`
    const [first, second, third] = [
      await instance(database.url),
      await instance(database.url),
      await instance(database.url),
    ]
    const { once, pool, connection } = first
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name: stream, subjects: [`${stream}.>`] })
    ends.push(() => manager.streams.delete(stream))
    await once.migrate()
    await pool.query('create table effects (at bigserial, consumer text not null, by int4 not null, n int4 not null)')
    for (let from = 0; from < EVENTS; from += 500) {
      await once.run({ scope: 's', key: `${from}`, input: from }, async ({ publish }) => {
        for (let n = from; n < from + 500; n++) await publish('step.made', { n })
      })
    }
    await once.relay({ to: natsSink(jetstream(connection), { stream }) }).drain()

    /** Until everything is applied. */
    async function consume(name: string, by: readonly (typeof first)[]): Promise<void> {
      const consumers = await Promise.all(
        by.map((of, i) => {
          const from = natsSource(jetstream(of.connection), { stream, events })
          // Few in hand: else the first takes all of them.
          const options = { from, concurrency: 4, batch: 8 }
          const insert = 'insert into effects (consumer, by, n) values ($1, $2, $3)'
          return of.once
            .consumer(name, options, {
              'step.made': async ({ data }, { tx }) => void (await tx.query(insert, [name, i, data.n])),
            })
            .start()
        }),
      )
      const count = async (): Promise<number> =>
        Number((await pool.query('select count(*) as n from effects where consumer = $1', [name])).rows[0]?.n)
      await until(async () => (await count()) >= EVENTS, 60_000)
      await Promise.all(consumers.map((consumer) => consumer.stop()))
    }
    await consume('one', [first])
    await consume('three', [first, second, third])
    for (const name of ['one', 'three']) {
      const { rows } = await pool.query<{ by: number; n: number }>(
        'select by, n from effects where consumer = $1 order by at',
        [name],
      )
      for (let a = 0; a < AGGREGATES; a++) {
        const seen = rows.map(({ n }) => n).filter((n) => n % AGGREGATES === a)
        expect(seen).toEqual(Array.from({ length: EVENTS / AGGREGATES }, (_, i) => i * AGGREGATES + a))
      }
      expect(new Set(rows.map(({ by }) => by)).size).toBe(name === 'one' ? 1 : 3)
    }
  }, 120_000)
})
