import { SHARDS } from '../../limits.ts'
import { partsOf } from '../namespaced/names.ts'
import { statusRowOf } from '../sql/status-rows.ts'
import { COUNTED_MAX, NOTHING, TRIES_MAX, type StatusParams, type StoredStatus } from '../status.ts'
import type { Row } from '../store.ts'
import { NOW } from './migrations.ts'
import { STATE } from './operation.ts'
import type { Reader } from './reader.ts'

/** At most this many events of a shard are counted. */
const SHARD_EVENTS = 200
const OF_NAMESPACE = `shard >= ?1 * ${SHARDS} and shard < (?1 + 1) * ${SHARDS}`

const OPERATIONS = `select count(iif(s = 'running', 1, null)) as running, count(iif(s = 'abandoned', 1, null)) as abandoned,
    count(iif(s = 'unknown', 1, null)) as unknown,
    ${NOW} - min(iif(s = 'abandoned', lease_until, null)) as oldest_abandoned_ms
  from (select ${STATE} as s, r.lease_until from effectively_once_record r
    where r.state <> 2 and (r.namespace = ?) is not false limit ${COUNTED_MAX})`

const BEHIND = `select created_at from effectively_once_event e where e.shard = s.shard and e.seq > coalesce(
    (select cursor from effectively_once_ack a where a.destination = s.destination and a.shard = s.shard), 0)
  order by e.seq`

const HELD = `select state, iif(state = 1, reason, null) as error from effectively_once_held
  where destination = s.destination limit ${COUNTED_MAX}`

const DESTINATIONS = `select s.destination as name, sum((select count(*) from (${BEHIND} limit ${SHARD_EVENTS}))) as waiting,
    ${NOW} - min((${BEHIND} limit 1)) as oldest_ms,
    (select count(*) from effectively_once_relay r where r.destination = s.destination and r.until > ${NOW}) as relays,
    (select coalesce(sum(state = 3), 0) from (${HELD})) as parked,
    (select count(error) from (${HELD})) as retrying, (select max(error) from (${HELD})) as error
  from effectively_once_shard s where ${OF_NAMESPACE} group by s.destination order by s.destination`

const UNSENT = `select count(*) as events, ${NOW} - min(created_at) as oldest_ms
  from (select created_at from effectively_once_event where ${OF_NAMESPACE} limit ${COUNTED_MAX})`

const CONSUMERS = `select k.name, ${NOW} - k.seen_at as seen_ago_ms, k.remember_ms,
    (select count(*) from (select 1 from effectively_once_dead_letter d where d.consumer = k.name and d.state = 1
      order by d.seq limit ${COUNTED_MAX})) as letters,
    (select ${NOW} - d.parked_at from effectively_once_dead_letter d where d.consumer = k.name and d.state = 1
      order by d.seq limit 1) as oldest_letter_ms,
    coalesce(t.retrying, 0) as retrying, t.error
  from effectively_once_consumer k left join (select consumer, count(error) as retrying, max(error) as error
    from (select consumer, json_extract(timeline, '$[#-1].error') as error from effectively_once_attempt limit ${TRIES_MAX})
    group by consumer) t on t.consumer = k.name order by k.name`

const SIZE = `select page_count * page_size as bytes from pragma_page_count, pragma_page_size`

export async function sqliteStatus(reader: Reader, { namespace, no }: StatusParams): Promise<StoredStatus> {
  const [operations] = await reader.all(OPERATIONS, [namespace])
  const destinations = await reader.all(DESTINATIONS, [no])
  const [unsent] = destinations.length > 0 ? [] : await reader.all(UNSENT, [no])
  const consumers = await reader.all(CONSUMERS)
  const [size] = await reader.all(SIZE)
  return {
    operations: statusRowOf(operations as Row),
    destinations: destinations.map(statusRowOf),
    unsent: statusRowOf(unsent ?? NOTHING),
    consumers: consumers.filter(({ name }) => partsOf(String(name)).no === no).map(statusRowOf),
    sweptAgoMs: null,
    // SQLite knows only the size of the whole file.
    sizes: [{ table: 'database', rows: null, bytes: Number(size?.['bytes']) }],
  }
}
