import type pg from 'pg'
import { SENT, type Sink } from '../../src/sink/sink.ts'
import type { BenchOnce } from '../support/database.ts'

/** Events as producers leave them: many aggregates, in every shard. */
export async function fillOutbox(pool: pg.Pool, events: number, aggregates: number): Promise<void> {
  await pool.query(FILL, [events, aggregates])
  await pool.query('vacuum (analyze) effectively_once.event')
}

const FILL = `
insert into effectively_once.event (seq, shard, id, aggregatetype, aggregateid, type, payload, headers)
select nextval('effectively_once.event_seq'), get_byte(sha256(convert_to(a.id, 'UTF8')), 0) & 63, gen_random_uuid(),
       'charge', a.id, 'charge.created', jsonb_build_object('id', n, 'account', a.id, 'amount', n % 1000), '{"source": "bench"}'
  from generate_series(1, $1::int8) n, lateral (select 'account-' || n % $2::int8 as id) a`

/** Leases, cursors and order as always, to a sink that does nothing. Events per second. */
export async function relayAll(once: BenchOnce, name: string, relays: number): Promise<number> {
  const startedAt = performance.now()
  const sent = await Promise.all(
    Array.from({ length: relays }, () => once.relay({ to: nothingSink(name), lease: '30s' }).drain()),
  )
  const events = sent.reduce((sum, count) => sum + count, 0)
  return (events * 1000) / (performance.now() - startedAt)
}

export function nothingSink(name: string): Sink {
  return {
    name,
    proves: 'accepted',
    dedupes: false,
    orders: true,
    send: (events) => Promise.resolve(events.map(() => SENT)),
  }
}
