import { onceError } from '../../errors.ts'
import type { NewLetter } from '../dead-letters.ts'
import { commitWith, type Client } from './client.ts'
import type { Work } from './database/connection.ts'
import { storeFailure } from './database/failure.ts'

/**
 * Sends BEGIN and the locks of the messages in one round trip. `write`, for the messages whose lock is free, and COMMIT
 * follow in a second one. So `write` sees everything that was committed before the locks. Returns the ids of the
 * messages that another transaction has locked.
 */
export async function underLocks<L extends Pick<NewLetter, 'id' | 'lock'>>(
  client: Client,
  of: { readonly label: string; readonly letters: readonly L[]; readonly deadlineMs: number },
  write: (work: Work, free: readonly L[], busy: readonly string[]) => Promise<void>,
): Promise<readonly string[]> {
  const { label, letters, deadlineMs } = of
  const { pool, statements } = client
  const connection = await pool.take()
  let busy: readonly string[]
  try {
    busy = await connection.trip(`${label}.lock`, (server) => {
      connection.begin({ deadlineMs })
      return connection.execute(server, `${label}.lock`, (work) => statements.lockLetters(work, letters))
    })
  } catch (error) {
    connection.tx?.rollback()
    pool.give(connection)
    throw storeFailure(error)
  }
  const free = letters.filter(({ id }) => !busy.includes(id))
  const ending = await commitWith(client, connection, label, (work) => write(work, free, busy))
  if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
  return busy
}
