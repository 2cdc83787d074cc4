import type { InboxItem } from '../../inbox.ts'
import type { Work } from '../database/connection.ts'

/** Whether the effect of the message is committed. Messages older than the inbox rows have a mark. */
export function isApplied({ database, tx }: Work, id: string): boolean {
  return database.inbox.seen(id, tx) !== undefined || database.marks.seen(id, tx) !== undefined
}

/**
 * Returns false when another transaction holds the lock. This is a separate statement, so that the next one sees
 * everything that was committed before.
 */
export async function lockMessage({ tx }: Work, { lock }: Pick<InboxItem, 'id' | 'lock'>): Promise<boolean> {
  return tx.tryAdvisory(inboxLock(lock))
}

export function inboxLock(lock: string): string {
  return `inbox ${lock}`
}
