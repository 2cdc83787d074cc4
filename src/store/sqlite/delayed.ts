import { SHARDS } from '../../limits.ts'
import { delayOf } from '../delayed.ts'
import type { Cancellation } from '../cancellation.ts'
import type { CancelParams, NotTaken } from '../outbox.ts'
import { NOW } from './migrations.ts'
import type { Turn } from './turn.ts'

const FIND = `select headers from effectively_once_event where id = ? and shard / ${SHARDS} = ?`
// state: 2 taken, 3 cancelled. The first write decides.
const TAKE = 'insert into effectively_once_delayed (id, state) values (?, 2) on conflict do nothing'
const CANCEL = `insert into effectively_once_delayed (id, state) values (?, iif(? > ${NOW}, 3, 2)) on conflict do nothing`
const CANCELLED = 'select 1 from effectively_once_delayed where id = ? and state = 3'

/** Cancels the event, or finds that it is too late. Then it stays too late. */
export function cancel(turn: Turn, { id, namespace, unwritten }: CancelParams): Cancellation {
  const delay = delayOf(unwritten?.headers ?? turn.all(FIND, [id, namespace])[0]?.['headers'])
  if (typeof delay === 'string') return delay
  turn.run(CANCEL, [id, delay.notBefore === null ? 0 : Date.parse(delay.notBefore)])
  return isCancelled(turn, id) ? 'cancelled' : 'due'
}

/** With one writer, no other transaction can be cancelling an event. */
export function takeDelayed(turn: Turn, ids: readonly string[]): NotTaken[] {
  for (const id of ids) turn.run(TAKE, [id])
  return ids.filter((id) => isCancelled(turn, id)).map((id) => ({ id, cancelled: true }))
}

function isCancelled(turn: Turn, id: string): boolean {
  return turn.all(CANCELLED, [id]).length > 0
}
