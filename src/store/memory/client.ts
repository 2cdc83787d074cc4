import type { Connection, Work } from './database/connection.ts'
import { commitFailure, storeFailure } from './database/failure.ts'
import type { Pool } from './pool.ts'
import type { Statements } from './statements/index.ts'

/** What every part of the store works with. */
export interface Client {
  readonly pool: Pool
  readonly statements: Statements
}

/** One statement that commits by itself. */
export async function autocommit<T>(
  { pool }: Client,
  label: string,
  body: (work: Work) => T | Promise<T>,
  where: 'pool' | 'aside' = 'pool',
): Promise<T> {
  const connection = where === 'aside' ? pool.aside() : await pool.take()
  try {
    return await connection.trip(label, async (server) => {
      const tx = connection.begin({ interactive: false })
      try {
        const value = await connection.execute(server, label, body)
        // The statement is over, its transaction is not: others may look now.
        const pause = server.pause(`${label}.commit`)
        if (pause !== undefined) await pause
        tx.commit()
        return value
      } catch (error) {
        tx.rollback()
        throw error
      }
    })
  } catch (error) {
    throw storeFailure(error)
  } finally {
    pool.give(connection)
  }
}

/** One statement of an open transaction, with the store's own words for what can go wrong. */
export async function inside<T>(
  connection: Connection,
  label: string,
  body: (work: Work) => T | Promise<T>,
): Promise<T> {
  try {
    return await connection.statement(label, body)
  } catch (error) {
    throw storeFailure(error)
  }
}

/** A statement and COMMIT in one trip. When the statement fails COMMIT still runs, and rolls back. */
export async function commitWith(
  { pool }: Client,
  connection: Connection,
  label: string,
  last: (work: Work) => Promise<void>,
): Promise<'committed' | 'rolledBack'> {
  try {
    return await connection.trip(label, async (server) => {
      let failure: { readonly error: unknown } | null = null
      try {
        await connection.execute(server, label, last)
        const pause = server.pause(`${label}.commit`)
        if (pause !== undefined) await pause
      } catch (error) {
        connection.tx?.fail()
        failure = { error }
      }
      const committed = connection.tx?.commit() === true
      if (failure !== null) throw failure.error
      return committed ? 'committed' : 'rolledBack'
    })
  } catch (error) {
    throw commitFailure(error)
  } finally {
    pool.give(connection)
  }
}
