import pg from 'pg'
import { workAll } from '../scenarios/relay-graphile.ts'
import { fillOutbox, relayAll } from '../scenarios/relay.ts'
import { createDatabase, onServer, openOnce, openPool, type BenchOnce } from '../support/database.ts'
import { median } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'

export interface FoundRates extends Found {
  readonly events: number
  readonly deadRows: number
}

const EVENTS = 200_000
const EVENTS_QUICK = 50_000
const JOBS = 40_000
const JOBS_QUICK = 20_000
const AGGREGATES = 1_000
const ACKS = 20_000
const ACKS_COMPARED = 1_000
const ROUNDS_MAX = 5

/**
 * Events per second from the table to a sink that does nothing: ours, ours in a database where a snapshot has been open
 * since before 20,000 acknowledgements, and graphile-worker. In turn, round after round.
 */
export async function measureRates(bench: Bench): Promise<FoundRates> {
  const { quick } = bench.options
  const events = quick ? EVENTS_QUICK : EVENTS
  const jobs = quick ? JOBS_QUICK : JOBS
  const free = await openLab(bench, 'bench_relay', events)
  const held = await openLab(bench, 'bench_relay_pinned', events)
  const pin = new pg.Client({ connectionString: held.url })
  try {
    await pin.connect()
    // Nothing that is deleted or updated from now on can be cleaned up.
    await pin.query('begin isolation level repeatable read')
    await pin.query('select count(*) from effectively_once.event')
    const acks = await ackTimes(held.once)
    bench.progress(`${ACKS} acknowledgements under an open snapshot`)
    const rates: Record<'relay' | 'relayPinned' | 'graphileWorker', number[]> = {
      relay: [],
      relayPinned: [],
      graphileWorker: [],
    }
    const rounds = Math.min(bench.options.rounds, ROUNDS_MAX)
    for (const { once } of [free, held]) await relayAll(once, 'warm-up', 1)
    for (let round = 0; round < rounds; round++) {
      rates.relay.push(await relayAll(free.once, `relay ${round}`, 1))
      rates.relayPinned.push(await relayAll(held.once, `pinned ${round}`, 1))
      rates.graphileWorker.push(await workAll(free.url, free.pool, jobs))
      bench.progress(`round ${round + 1} of ${rounds}`)
    }
    const to = (name: keyof typeof rates, base: keyof typeof rates): number =>
      median(rates[name].map((rate, i) => rate / (rates[base][i] ?? Number.NaN)))
    return {
      events,
      deadRows: (await countDeadRows(free.pool)) + (await countDeadRows(held.pool)),
      ratios: {
        'relay/graphileWorker': to('relay', 'graphileWorker'),
        'relayPinned/relay': to('relayPinned', 'relay'),
        'ackLast/ackFirst': lowerQuartile(acks.slice(-ACKS_COMPARED)) / lowerQuartile(acks.slice(0, ACKS_COMPARED)),
      },
      rates: {
        relay: median(rates.relay),
        relayPinned: median(rates.relayPinned),
        graphileWorker: median(rates.graphileWorker),
      },
    }
  } finally {
    await pin.end()
    await free.close()
    await held.close()
  }
}

interface Lab {
  readonly url: string
  readonly pool: pg.Pool
  readonly once: BenchOnce
  close(): Promise<void>
}

async function openLab(bench: Bench, name: string, events: number): Promise<Lab> {
  const url = await createDatabase(bench.serverUrl, name)
  const pool = openPool(url)
  const once = await openOnce(pool)
  await fillOutbox(pool, events, AGGREGATES)
  bench.progress(`${events} events written`)
  return {
    url,
    pool,
    once,
    async close() {
      await once.close()
      await pool.end()
      await onServer(bench.serverUrl, `drop database ${name} with (force)`)
    },
  }
}

/** Milliseconds of each of many acknowledgements of one shard in a row. */
async function ackTimes(once: BenchOnce): Promise<number[]> {
  const { outbox } = once.core.store
  if (!outbox) throw new Error('the store has no outbox')
  const destination = 'acks'
  const relay = '00000000-0000-4000-8000-000000000001'
  await outbox.open({ destination })
  const [lease] = await outbox.lease({ destination, relay, leaseMs: 600_000, limit: 1 })
  if (!lease) throw new Error('no shard was free')
  const { shard, token } = lease
  const times: number[] = []
  for (let cursor = 1; cursor <= ACKS; cursor++) {
    const startedAt = performance.now()
    await outbox.ack({
      destination,
      acks: [{ shard, token, cursor, segment: 1, counted: cursor, tryingTo: cursor + 1, attempt: 1 }],
      hold: [],
    })
    times.push(performance.now() - startedAt)
  }
  return times
}

async function countDeadRows(pool: pg.Pool): Promise<number> {
  await pool.query('select pg_stat_force_next_flush()')
  const { rows } = await pool.query<{ dead: number }>(`
    select coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 as dead from pg_stat_user_tables
     where schemaname = 'effectively_once' and relname ~ '^(event|ack|held)(_[0-9]+)?$'`)
  return rows[0]?.dead ?? 0
}

/** The lower quartile: what else the machine does only ever adds to a time. */
function lowerQuartile(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 2] ?? Number.NaN
}
