import { consumersOf, destinationsOf, maybe, type Looked } from './facts.ts'
import type { Opened } from './open-store.ts'

const NOW = `cast(unixepoch('subsec') * 1000 as integer)`

const RECORDS = `select coalesce(sum(state = 1), 0) as running, coalesce(sum(state = 1 and lease_until < ${NOW}), 0) as lapsed,
  coalesce(sum(state = 3), 0) as unknown from effectively_once_record where state <> 2`
const DESTINATIONS = `select s.destination, coalesce(sum(w.n), 0) as waiting, ${NOW} - min(w.oldest) as oldest_ms,
    (select count(*) from effectively_once_relay r where r.destination = s.destination and r.until > ${NOW}) as relays,
    (select count(*) from effectively_once_held h where h.destination = s.destination and h.state = 3) as parked
  from effectively_once_shard s left join (
    select a.destination, a.shard, count(e.seq) as n, min(e.created_at) as oldest
      from (select x.destination, x.shard, coalesce(k.cursor, 0) as cursor from effectively_once_shard x
              left join effectively_once_ack k on k.destination = x.destination and k.shard = x.shard) a
      join effectively_once_event e on e.shard = a.shard and e.seq > a.cursor group by a.destination, a.shard) w
    on w.destination = s.destination and w.shard = s.shard
  group by s.destination order by s.destination`
const EVENTS = `select count(*) as events, ${NOW} - min(created_at) as oldest_ms from effectively_once_event`
const CONSUMERS = `select k.name, ${NOW} - k.seen_at as seen_ago, k.remember_ms, (select count(*) from effectively_once_dead_letter d
    where d.consumer = k.name and d.state = 1 and d.parked_at < ${NOW} - k.remember_ms) as older
  from effectively_once_consumer k order by k.name`

export async function inspectSqlite({ query }: Opened): Promise<Looked> {
  const [records] = await query(RECORDS)
  const destinations = destinationsOf(await query(DESTINATIONS))
  const [events] = destinations.length === 0 ? await query(EVENTS) : []
  return {
    inProgress: Number(records?.['running']),
    lapsed: Number(records?.['lapsed']),
    unknown: Number(records?.['unknown']),
    destinations,
    unsent: { events: Number(events?.['events'] ?? 0), oldestMs: maybe(events?.['oldest_ms']) },
    consumers: consumersOf(await query(CONSUMERS)),
    server: null,
  }
}
