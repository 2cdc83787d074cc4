import { SHARDS } from '../../../limits.ts'
import { delayOf } from '../../delayed.ts'
import { readNotBefore } from '../../not-before.ts'
import type { Cancellation } from '../../cancellation.ts'
import type { CancelParams, NotTaken } from '../../outbox.ts'
import type { EventRow } from '../../store.ts'
import type { Work } from '../database/connection.ts'

/** The due time in microseconds, or undefined if the event is not delayed. */
export function notBeforeOf({ headers }: Pick<EventRow, 'headers'>): number | undefined {
  const { notbefore } = JSON.parse(headers) as { readonly notbefore?: unknown }
  const notBefore = typeof notbefore === 'string' ? readNotBefore(notbefore) : undefined
  return notBefore === undefined ? undefined : Date.parse(notBefore) * 1000
}

/** The row may exist already, because a transaction can cancel an event that it writes only at its end. */
export async function enterDelayed(
  { database, tx }: Work,
  { id, shard, headers }: Pick<EventRow, 'id' | 'shard' | 'headers'>,
): Promise<void> {
  await database.delayed.insert(id, { shard, headers, state: 'waiting' }, tx)
}

/** The state of one row decides for ever whether the event is cancelled or due. */
export async function cancel(work: Work, { id, namespace, unwritten }: CancelParams): Promise<Cancellation> {
  const { database, tx } = work
  if (unwritten) await enterDelayed(work, { id, ...unwritten })
  const found = database.delayed.seen(id, tx)
  if (found === undefined || Math.floor(found.shard / SHARDS) !== namespace) return 'unknown'
  const delay = delayOf(found.headers)
  if (typeof delay === 'string') return delay
  const row = await database.delayed.lock(id, tx, 'update')
  const isEarly = delay.notBefore !== null && Date.parse(delay.notBefore) * 1000 > database.now()
  const state = row?.state === 'waiting' ? (isEarly ? 'cancelled' : 'taken') : row?.state
  if (row && state) database.delayed.put(id, { ...row, state }, tx)
  return state === 'cancelled' ? 'cancelled' : 'due'
}

/**
 * Marks the events as taken before they are sent. It skips an event that another transaction is cancelling, instead of
 * waiting.
 */
export async function takeDelayed({ database, tx }: Work, ids: readonly string[]): Promise<NotTaken[]> {
  const not: NotTaken[] = []
  for (const id of ids) {
    const seen = database.delayed.seen(id, tx)
    if (seen === undefined || seen.state === 'taken') continue
    const isLocked = database.delayed.locked(id, tx, 'update')
    const row = isLocked ? undefined : await database.delayed.lock(id, tx, 'update')
    if (row?.state === 'waiting') database.delayed.put(id, { ...row, state: 'taken' }, tx)
    else if (row?.state !== 'taken') not.push({ id, cancelled: row?.state === 'cancelled' })
  }
  return not
}
