import { fillOutbox } from '../scenarios/relay.ts'
import { createDatabase, onServer, openOnce, openPool, type BenchOnce } from '../support/database.ts'
import { median, ratio } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'

const EVENTS = 8_000
const EVENTS_QUICK = 3_000
const AGGREGATES = 1_000
const ROUNDS = 3

/** Ways to consume the same events; each message writes one row. `consumer` is a batch on a pool that pipelines. */
const WAYS = {
  consumerSingle: { batch: 1 },
  consumerInTurn: {},
  consumer: { pipelined: true },
} as const

type Way = keyof typeof WAYS

/**
 * Messages per second from the outbox table, one row written per message, everything that a consumer promises in it.
 * `consumerSingle` is the same consumer with a transaction of its own for every message.
 */
export async function measureConsumer(bench: Bench): Promise<Found> {
  const url = await createDatabase(bench.serverUrl, 'bench_consumer')
  const pool = openPool(url, { pipeline: true })
  const once = await openOnce(pool)
  const rates = new Map<string, number[]>(Object.keys(WAYS).map((way) => [way, []]))
  const rounds = bench.options.quick ? 1 : ROUNDS
  try {
    await pool.query(
      'create table receipt (id bigint generated always as identity primary key, charge bigint, account text)',
    )
    await fillOutbox(pool, bench.options.quick ? EVENTS_QUICK : EVENTS, AGGREGATES)
    await consumeAll(once, 'warm up', 'consumer')
    for (let round = 0; round < rounds; round++) {
      for (const way of Object.keys(WAYS) as Way[]) {
        rates.get(way)?.push(await consumeAll(once, `${way} ${round}`, way))
      }
      bench.progress(`round ${round + 1} of ${rounds}`)
    }
  } finally {
    await once.close()
    await pool.end()
    await onServer(bench.serverUrl, 'drop database bench_consumer with (force)')
  }
  return {
    ratios: {
      'consumerBatch/consumerSingle': ratio(rates, 'consumer', 'consumerSingle') ?? Number.NaN,
      'consumerInTurn/consumerSingle': ratio(rates, 'consumerInTurn', 'consumerSingle') ?? Number.NaN,
    },
    rates: Object.fromEntries([...rates].map(([name, values]) => [name, median(values)])),
  }
}

/** From the first message to the end: what it takes to start and to stop is not counted. */
async function consumeAll(once: BenchOnce, name: string, way: Way): Promise<number> {
  let startedAt = Number.NaN
  let last = Number.NaN
  const consumer = once.consumer(
    name,
    { from: once.outbox, ...WAYS[way] },
    {
      'charge.created': async ({ data }, { tx }) => {
        if (Number.isNaN(startedAt)) startedAt = performance.now()
        const values = [data.id, data.account]
        await tx.query({ name: 'receipt', text: 'insert into receipt (charge, account) values ($1, $2)', values })
        last = performance.now()
      },
    },
  )
  const messages = await consumer.drain()
  return (messages * 1000) / (last - startedAt)
}
