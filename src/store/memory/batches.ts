import { BATCH_REQUESTS_MAX } from '../../limits.ts'
import type {
  Batches,
  BatchParams,
  BatchSession,
  CompleteParams,
  EffectsOutcome,
  Row,
  UserStatement,
} from '../store.ts'
import { commitWith } from './client.ts'
import type { Client } from './client.ts'
import type { Connection } from './database/connection.ts'
import { isDeadline, LineBroken, storeFailure } from './database/failure.ts'

export function memoryBatches(client: Client): Batches {
  return {
    limit: () => Promise.resolve(BATCH_REQUESTS_MAX),
    open: (params) => open(client, params),
  }
}

async function open(client: Client, { claims, deadlineMs, rerun }: BatchParams): ReturnType<Batches['open']> {
  const connection = await client.pool.take()
  try {
    const won = await connection.trip('batch.open', (server) => {
      connection.begin({ deadlineMs })
      return connection.execute(server, 'batch.claim', (work) => client.statements.claimBatch(work, claims, rerun))
    })
    return { session: new MemoryBatch(client, connection), won }
  } catch (error) {
    connection.tx?.rollback()
    client.pool.give(connection)
    throw storeFailure(error)
  }
}

class MemoryBatch implements BatchSession {
  private readonly client: Client
  private readonly connection: Connection

  constructor(client: Client, connection: Connection) {
    this.client = client
    this.connection = connection
  }

  /** Runs all statements in one round trip. The first failure ends the batch. */
  async effects(statements: readonly UserStatement[]): Promise<EffectsOutcome> {
    const { connection, client } = this
    const rows: (readonly Row[])[] = []
    let index = 0
    try {
      await connection.trip('batch.effects', async (server) => {
        for (const statement of statements) {
          rows.push(
            await connection.execute(server, 'batch.effect', (work) =>
              client.statements.userStatement(work, statement),
            ),
          )
          index += 1
        }
      })
      return { kind: 'done', rows }
    } catch (error) {
      const late = isDeadline(error)
      if (!late && !(error instanceof LineBroken)) return { kind: 'failed', index, error }
      return { kind: 'ended', index, late, error: storeFailure(error) }
    }
  }

  complete(items: readonly Omit<CompleteParams, 'fenced'>[]): Promise<'committed' | 'rolledBack'> {
    return commitWith(this.client, this.connection, 'batch.complete', async (work) => {
      const { complete, append } = this.client.statements
      for (const item of items) await complete(work, { ...item, events: [], fenced: false })
      // The events of all items are appended at once. Item by item, two batches could lock two shards in opposite
      // order.
      const events = items.flatMap((item) => item.events)
      if (events.length > 0) await append(work, events)
    })
  }

  async rollback(): Promise<void> {
    const { connection, client } = this
    await connection.trip('rollback', async () => connection.tx?.rollback()).catch(() => undefined)
    client.pool.give(connection)
  }
}
