import type { InboxItem } from '../../inbox.ts'
import type { Work } from '../database/connection.ts'

/** Its effect is committed, or older than the inbox and marked. */
export function isApplied({ database, tx }: Work, id: string): boolean {
  return database.inbox.seen(id, tx) !== undefined || database.marks.seen(id, tx) !== undefined
}

/** False: another transaction has its lock. A statement of its own: the next one sees what was committed before. */
export async function lockMessage({ tx }: Work, { lock }: Pick<InboxItem, 'id' | 'lock'>): Promise<boolean> {
  return tx.tryAdvisory(inboxLock(lock))
}

export function inboxLock(lock: string): string {
  return `inbox ${lock}`
}
