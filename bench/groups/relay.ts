import pg from 'pg'
import { fillOutbox, relayAll } from '../scenarios/relay.ts'
import { createDatabase, onServer, openOnce, openPool } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import { median } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'

export interface FoundRelay extends Found {
  readonly events: number
  readonly deadRows: number
}

const EVENTS = 200_000
const EVENTS_QUICK = 50_000
const AGGREGATES = 1_000
const ACKS_COMPARED = 1_000

/** Events per second from the table to a sink that does nothing; again while an old snapshot is open all the time. */
export async function measureRelay(bench: Bench): Promise<FoundRelay> {
  const url = await createDatabase(bench.serverUrl, 'bench_relay')
  const pool = openPool(url)
  const once = await openOnce(pool)
  const pin = new pg.Client({ connectionString: url })
  const events = bench.options.quick ? EVENTS_QUICK : EVENTS
  try {
    await pin.connect()
    await fillOutbox(pool, events, AGGREGATES)
    bench.progress(`${events} events written`)
    const rates: Record<'relay' | 'relayPinned', number[]> = { relay: [], relayPinned: [] }
    const rounds = Math.min(bench.options.rounds, 5)
    await relayAll(once, 'warm-up', 1)
    for (let round = 0; round < rounds; round++) {
      rates.relay.push(await relayAll(once, `relay ${round}`, 1))
      await pinned(pin, async () => rates.relayPinned.push(await relayAll(once, `pinned ${round}`, 1)))
      bench.progress(`round ${round + 1} of ${rounds}`)
    }
    const acks = await pinned(pin, () => ackTimes(once))
    const ratios = {
      'relayPinned/relay': median(rates.relayPinned.map((rate, i) => rate / (rates.relay[i] ?? Number.NaN))),
      'ackLast/ackFirst': quick(acks.slice(-ACKS_COMPARED)) / quick(acks.slice(0, ACKS_COMPARED)),
    }
    const deadRows = await countDeadRows(pool)
    return { events, deadRows, ratios, rates: { relay: median(rates.relay), relayPinned: median(rates.relayPinned) } }
  } finally {
    await pin.end()
    await once.close()
    await pool.end()
    await onServer(bench.serverUrl, 'drop database bench_relay with (force)')
  }
}

/** Nothing that is deleted or updated meanwhile can be cleaned up. */
async function pinned<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin isolation level repeatable read')
  await client.query('select count(*) from effectively_once.ack')
  try {
    return await work()
  } finally {
    await client.query('rollback')
  }
}

const ACKS = 20_000

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
function quick(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 2] ?? Number.NaN
}
