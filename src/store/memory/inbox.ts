import { withLater } from '../dead-letters.ts'
import type { CompleteInboxParams, EnterParams, Inbox, InboxSession, ParkParams, Taken, TakeParams } from '../inbox.ts'
import { autocommit, commitWith } from './client.ts'
import type { Client } from './client.ts'
import type { Connection, Work } from './database/connection.ts'
import { claimEnded, storeFailure } from './database/failure.ts'
import { underLocks } from './letter-locks.ts'
import { connectionOf } from './database/memory-tx.ts'
import type { MemoryTx } from './database/memory-tx.ts'
import { MemorySession } from './session.ts'

/** The inbox in memory. Every method except `take`, `enter` and `park` is one statement that commits by itself. */
export function memoryInbox(client: Client): Inbox<MemoryTx> {
  const { statements } = client
  const one = <T>(label: string, body: (work: Work) => T | Promise<T>): Promise<T> => autocommit(client, label, body)
  return {
    letters: {
      list: (params) => one('letters.list', (work) => statements.listLetters(work, params)),
      get: ({ id }) => one('letters.get', (work) => statements.getLetter(work, id)),
      count: ({ filter }) => one('letters.count', (work) => statements.countLetters(work, filter)),
      discard: ({ filter, limit }) => one('letters.discard', (work) => statements.discardLetters(work, filter, limit)),
    },
    open: (params) => one('inbox.open', (work) => statements.openConsumer(work, params)),
    take: (params) => take(client, params),
    look: ({ consumer, items, redrive = false }) =>
      one('inbox.look', (work) => statements.lookAt(work, consumer, items, redrive)),
    enter: (session, { consumer, item, redrive = false }) => {
      const connection = connectionOf(session.tx)
      if (connection === undefined) return Promise.resolve(false)
      return enter(client, connection, { consumer, item, redrive })
    },
    trying: ({ consumer, ids }) => one('inbox.trying', (work) => statements.trying(work, consumer, ids)),
    untry: ({ ids }) => one('inbox.untry', (work) => statements.untry(work, ids)),
    tries: ({ ids }) => one('inbox.tries', (work) => statements.tries(work, ids)),
    failed: ({ consumer, failures }) => one('inbox.failed', (work) => statements.failed(work, consumer, failures)),
    park: (params) => park(client, params),
    positions: ({ consumer, source }) =>
      one('inbox.positions', (work) => statements.positionsOf(work, consumer, source)),
    pass: ({ consumer, source, positions }) =>
      one('inbox.pass', (work) => statements.passPositions(work, consumer, source, positions)),
    sweep: ({ limit }) => one('inbox.sweep', (work) => statements.sweepInbox(work, limit)),
  }
}

/** Sends BEGIN and the statement that takes the messages in one round trip. */
async function take(client: Client, params: TakeParams): Promise<Taken<MemoryTx>> {
  const { consumer, items, deadlineMs, redrive = false } = params
  const connection = await client.pool.take()
  try {
    const states = await connection.trip('inbox.take', (server) => {
      connection.begin({ deadlineMs })
      return connection.execute(server, 'inbox.take', (work) =>
        client.statements.takeMessages(work, consumer, items, redrive),
      )
    })
    const taken = items.flatMap(({ id }, i) => (states[i] === 'taken' && !redrive ? id : []))
    return { states, session: new MemoryInboxSession(client, connection, taken) }
  } catch (error) {
    connection.tx?.rollback()
    client.pool.give(connection)
    throw storeFailure(error)
  }
}

/** Sends the statements for the lock and for the row in one round trip. */
async function enter(client: Client, connection: Connection, params: Required<EnterParams>): Promise<boolean> {
  const { consumer, item, redrive } = params
  const { statements } = client
  try {
    return await connection.trip('inbox.enter', async (server) => {
      const had = await connection.execute(server, 'inbox.enter.lock', (work) => statements.lockMessage(work, item))
      if (!had) return false
      return connection.execute(server, 'inbox.enter', (work) => statements.enterMessage(work, consumer, item, redrive))
    })
  } catch (error) {
    throw storeFailure(error)
  }
}

async function park(client: Client, params: ParkParams): Promise<readonly string[]> {
  const { consumer, letters, positions, deadlineMs } = params
  const { statements } = client
  const running = await underLocks(client, { label: 'inbox.park', letters, deadlineMs }, async (work, _free, busy) => {
    const waiting = withLater(letters, busy)
    const free = letters.filter(({ id }) => !waiting.includes(id))
    await statements.parkLetters(
      work,
      consumer,
      free.map(({ lock: _, ...letter }) => letter),
    )
    if (positions !== null && busy.length === 0)
      await statements.passPositions(work, consumer, positions.source, positions.positions)
  })
  return withLater(letters, running)
}

/** An open transaction whose first statement inserted the inbox rows. */
class MemoryInboxSession implements InboxSession<MemoryTx> {
  readonly session: MemorySession
  private readonly client: Client
  private readonly connection: Connection
  private readonly began: Connection['tx']
  private readonly taken: readonly string[]

  constructor(client: Client, connection: Connection, taken: readonly string[]) {
    this.client = client
    this.connection = connection
    this.began = connection.tx
    this.taken = taken
    this.session = new MemorySession(client, connection)
  }

  async complete({ events, ...params }: CompleteInboxParams): Promise<'committed' | 'rolledBack'> {
    const { client, connection, taken } = this
    if (events.length > 0) await this.session.append(events)
    return commitWith(client, connection, 'inbox.complete', async (work) => {
      if (work.tx !== this.began) throw claimEnded()
      await client.statements.completeInbox(work, { ...params, taken })
    })
  }

  rollback(): Promise<void> {
    return this.session.rollback()
  }
}
