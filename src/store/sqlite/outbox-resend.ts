import { readNotBefore } from '../not-before.ts'
import type { ResendParams } from '../outbox.ts'
import { NOW } from './migrations.ts'
import type { Turn } from './turn.ts'

const NUMBER = 'insert into effectively_once_resend default values returning no'
const EARLIER = 'delete from effectively_once_resend where no < ?'
const CHOSEN = `json_type(e.headers, '$.erased') is not 'true' and e.created_at >= :since and (:until is null or e.created_at < :until)
    and (:type is null or e.type = :type) and (:aggregate is null or e.aggregateid = :aggregate)`
const TIMES = `select e.seq, json_extract(e.headers, '$.notbefore') as not_before from effectively_once_event e
  where ${CHOSEN} and json_type(e.headers, '$.notbefore') = 'text'`
// Events after the cursor are sent anyway. Held events have their own state, unless they were skipped.
const RESEND = `with later as materialized (
    select cast(key as integer) as seq, value as due_at from json_each(:times) where value > ${NOW})
  insert into effectively_once_held
    (destination, shard, seq, aggregateid, state, attempts, resend, due_at, held_at)
  select a.destination, e.shard, e.seq, e.aggregateid, iif(t.due_at is null, 1, 2), 0, :no,
    iif(t.due_at is null and row_number() over (partition by e.aggregateid, t.due_at is null order by e.seq) > 1,
      null, coalesce(t.due_at, ${NOW})), ${NOW}
  from effectively_once_event e
  join effectively_once_ack a on a.destination = :destination and a.shard = e.shard and e.seq <= a.cursor
  left join later t on t.seq = e.seq
  where ${CHOSEN}
    and not exists (select 1 from effectively_once_delayed d where d.id = e.id and d.state = 3)
    and not exists (select 1 from effectively_once_held x
      where x.destination = a.destination and x.shard = e.shard and x.seq = e.seq and x.state <> 4)
  on conflict (destination, shard, seq) do update set
    state = excluded.state, attempts = 0, tried = 0, resend = excluded.resend, due_at = excluded.due_at, reason = null`

/**
 * Holds events that were already sent, so that they are sent again. An event whose time has not come waits for that
 * time. Among the others, the first event of each aggregate is due now, and the rest wait behind it.
 */
export function resend(turn: Turn, { destination, since, until, type, aggregateId }: ResendParams): number {
  const no = Number(turn.all(NUMBER, [])[0]?.['no'])
  turn.run(EARLIER, [no])
  const chosen = [Date.parse(since), until === null ? null : Date.parse(until), type, aggregateId]
  const times = turn.all(numbered(TIMES), chosen).flatMap(({ seq, not_before: text }) => {
    const notBefore = readNotBefore(String(text))
    return notBefore === undefined ? [] : [[String(seq), Date.parse(notBefore)]]
  })
  return turn.run(numbered(RESEND), [...chosen, no, destination, JSON.stringify(Object.fromEntries(times))])
}

const NAMES = ['since', 'until', 'type', 'aggregate', 'no', 'destination', 'times']

function numbered(sql: string): string {
  return sql.replaceAll(/:(\w+)/g, (_, name: string) => `?${NAMES.indexOf(name) + 1}`)
}

export function forget(turn: Turn, destination: string): void {
  for (const table of ['relay', 'held', 'ack', 'shard']) {
    turn.run(`delete from effectively_once_${table} where destination = ?`, [destination])
  }
  turn.run(`delete from effectively_once_unclaimed where kind = 'destination' and name = ?`, [destination])
}
