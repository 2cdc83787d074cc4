import type { PgClient } from './client.ts'
import type { PgLink } from './link.ts'
import type { PgDriverContext } from './context.ts'
import { ROLLBACK } from './pipeline.ts'

/** A rollback that takes longer, such as behind an unread cursor, is replaced by ending the connection. */
const ROLLBACK_WAIT_MS = 5_000

/** Ends the transaction and releases the connection. If that fails, ends the connection, too. */
export async function rollBack(link: PgLink, context: PgDriverContext): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, ROLLBACK_WAIT_MS, null)
  })
  const outcome = await Promise.race([link.run([ROLLBACK], context), late])
  clearTimeout(timer)
  if (outcome && outcome.failedAt < 0 && outcome.tag === 'ROLLBACK') giveBack(link)
  else link.release(true)
}

/** Releases a connection to the pool, or ends it if it is still in a transaction. */
export function giveBack(link: PgLink): void {
  link.release(isInTransaction(link.client))
}

function isInTransaction(client: PgClient): boolean {
  const status = client.getTransactionStatus?.()
  return status === 'T' || status === 'E'
}
