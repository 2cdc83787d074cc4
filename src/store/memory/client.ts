import type { Connection, Work } from './database/connection.ts'
import { commitFailure, storeFailure } from './database/failure.ts'
import type { Pool } from './pool.ts'
import type { Statements } from './statements/index.ts'

/** The objects that every part of the store works with. */
export interface Client {
  readonly pool: Pool
  readonly statements: Statements
}

/** Runs one statement that commits by itself. */
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
        // The statement has ended, but its transaction has not. Other transactions may run in between.
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

/** Runs one statement of an open transaction, and turns its failures into the store's own errors. */
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

/** Runs a statement and COMMIT in one round trip. When the statement fails, COMMIT still runs and rolls back. */
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
