import { SHARDS } from '../limits.ts'
import { REWOUND } from '../store/rewound.ts'
import { consumersOf, destinationsOf, namespacesOf, rewindsOf, REWINDS_MAX, REWINDS_MS, type Looked } from './facts.ts'
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
const SENT = `exists (select 1 from effectively_once_shard d where d.shard / ${SHARDS} = n.no)`
const EVENTS = `effectively_once_event e where e.shard / ${SHARDS} = n.no`
const NAMESPACES = `select n.no, n.name, case when ${SENT} then 0 else (select count(*) from ${EVENTS}) end as events,
    case when not ${SENT} then (select ${NOW} - min(e.created_at) from ${EVENTS}) end as oldest_ms
  from (select no, name from effectively_once_namespace
    union all select 0, null where not exists (select 1 from effectively_once_namespace)) n order by n.no`
const UNCLAIMED = 'select name from effectively_once_unclaimed order by name'
const CONSUMERS = `select k.name, ${NOW} - k.seen_at as seen_ago, k.remember_ms, (select count(*) from effectively_once_dead_letter d
    where d.consumer = k.name and d.state = 1 and d.parked_at < ${NOW} - k.remember_ms) as older
  from effectively_once_consumer k order by k.name`
const REWINDS = `select namespace, at, detail from effectively_once_audit
  where action = '${REWOUND}' and at > ${NOW} - ${REWINDS_MS} order by seq desc limit ${REWINDS_MAX}`

export async function inspectSqlite({ query }: Opened): Promise<Looked> {
  const [records] = await query(RECORDS)
  return {
    namespaces: namespacesOf(await query(NAMESPACES)),
    unclaimed: (await query(UNCLAIMED)).map(({ name }) => String(name)),
    inProgress: Number(records?.['running']),
    lapsed: Number(records?.['lapsed']),
    unknown: Number(records?.['unknown']),
    destinations: destinationsOf(await query(DESTINATIONS)),
    consumers: consumersOf(await query(CONSUMERS)),
    rewinds: rewindsOf(await query(REWINDS)),
    server: null,
  }
}
