import type { ResendParams } from '../outbox.ts'
import { NOW } from './migrations.ts'
import type { Turn } from './turn.ts'

const NUMBER = 'insert into effectively_once_resend default values returning no'
const EARLIER = 'delete from effectively_once_resend where no < ?'
// What is not behind the cursor is sent anyway; what is held is sent or judged already, unless it was skipped.
const RESEND = `insert into effectively_once_held
    (destination, shard, seq, aggregateid, state, attempts, resend, due_at, held_at)
  select a.destination, e.shard, e.seq, e.aggregateid, 1, 0, :no,
    case when row_number() over (partition by e.aggregateid order by e.seq) = 1 then ${NOW} end, ${NOW}
  from effectively_once_event e
  join effectively_once_ack a on a.destination = :destination and a.shard = e.shard and e.seq <= a.cursor
  where e.created_at >= :since and (:until is null or e.created_at < :until)
    and (:type is null or e.type = :type) and (:aggregate is null or e.aggregateid = :aggregate)
    and not exists (select 1 from effectively_once_held x
      where x.destination = a.destination and x.shard = e.shard and x.seq = e.seq and x.state <> 4)
  on conflict (destination, shard, seq) do update set
    state = 1, attempts = 0, tried = 0, resend = excluded.resend, due_at = excluded.due_at, reason = null`

/** Sets events that were sent already aside: the first of each aggregate is due now, the others wait behind it. */
export function resend(turn: Turn, { destination, since, until, type, aggregateId }: ResendParams): number {
  const no = Number(turn.all(NUMBER, [])[0]?.['no'])
  turn.run(EARLIER, [no])
  const values = [no, destination, Date.parse(since), until === null ? null : Date.parse(until), type, aggregateId]
  return turn.run(
    RESEND.replaceAll(/:(\w+)/g, (_, name: string) => `?${NAMES.indexOf(name) + 1}`),
    values,
  )
}

const NAMES = ['no', 'destination', 'since', 'until', 'type', 'aggregate']

export function forget(turn: Turn, destination: string): void {
  for (const table of ['relay', 'held', 'ack', 'shard']) {
    turn.run(`delete from effectively_once_${table} where destination = ?`, [destination])
  }
  turn.run(`delete from effectively_once_unclaimed where kind = 'destination' and name = ?`, [destination])
}
