import type { Rows } from './verifier.ts'

/** Finds the place of each event from the tables. $1: the events. */
const EXPLAIN = `
select o.event, o.type, o.aggregate, o.n, e.shard, e.seq::int8 as seq, e.segment,
       round(extract(epoch from clock_timestamp() - o.at)) as age,
       (select string_agg(a.destination || ' at ' || a.cursor, ', ') from (
          select destination, max(cursor) as cursor from effectively_once.ack k where k.shard = e.shard group by 1) a) as acks,
       (select string_agg(h.destination || ' state ' || h.state || ' attempts ' || h.attempts || ' tried ' || h.tried
                 || ' due ' || coalesce(h.due_at::text, 'never') || ' behind ' || (
                   select count(*) || ' first due ' || coalesce(min(b.due_at)::text, 'never') from effectively_once.held b
                    where b.destination = h.destination and b.shard = h.shard and b.aggregateid = h.aggregateid and b.seq < h.seq), ', ')
          from effectively_once.held h where h.shard = e.shard and h.seq = e.seq) as held,
       (select string_agg('state ' || l.state || ' ' || l.reason, ', ')
          from effectively_once.dead_letter l where l.message = o.event::text) as letter
  from orders o left join effectively_once.event e on e.id = o.event
 where o.event = any($1::uuid[])
 order by o.aggregate, o.n`

const SHOWN = 6

/** Describes a few of the events for debugging, one line each. */
export async function explain(rows: Rows, events: readonly string[], dropped: ReadonlySet<string>): Promise<string[]> {
  const found = await rows(EXPLAIN, [events])
  const byType = new Map<unknown, number>()
  for (const { type } of found) byType.set(type, (byType.get(type) ?? 0) + 1)
  const counts = [...byType].map(([type, count]) => `${count} ${String(type)}`).join(', ')
  const inDropped = events.filter((event) => dropped.has(event)).length
  const lines = found.slice(0, SHOWN).map(({ event, ...row }) => {
    const known = Object.entries(row).flatMap(([name, value]) => (value === null ? [] : [`${name} ${String(value)}`]))
    return `  ${String(event).slice(0, 8)} ${known.join(', ')}${dropped.has(String(event)) ? ', dropped by a failover' : ''}`
  })
  return [`  ${counts}; ${inDropped} of them dropped by a failover`, ...lines]
}
