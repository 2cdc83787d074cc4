import { delayOf, isDelayed } from '../delayed.ts'
import { isOrdered } from '../ordered.ts'
import type { Cancellation } from '../cancellation.ts'
import type { CancelParams } from '../outbox.ts'
import type { EventRow, Row } from '../store.ts'
import type { StatementName } from './statements.ts'

/** Whether the database must also store the event's predecessor, or a row that can cancel it. */
export function needsView(event: EventRow): boolean {
  return isOrdered(event) || isDelayed(event)
}

/** Runs by itself or in the user's transaction. The last statement decides. */
export async function cancelDelayed(
  query: (name: StatementName, values: readonly unknown[]) => Promise<readonly Row[]>,
  { id, namespace, unwritten }: CancelParams,
): Promise<Cancellation> {
  const found: Row | undefined = unwritten ? { ...unwritten } : (await query('findDelayed', [id, namespace]))[0]
  const delay = delayOf(found?.['headers'])
  if (typeof delay === 'string') return delay
  const [row] = await query('cancelDelayed', [id, found?.['shard'], delay.notBefore])
  return row?.['cancelled'] === true ? 'cancelled' : 'due'
}
