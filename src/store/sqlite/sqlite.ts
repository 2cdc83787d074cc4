import { sqliteStatus } from './status.ts'
import { sqliteStreams } from './streams.ts'
import { onceError } from '../../errors.ts'
import { invalid } from '../../options.ts'
import { type Clock, systemClock } from '../../platform/clock.ts'
import { type Random, systemRandom } from '../../platform/random.ts'
import type { SqlBegun, SqlStore } from '../store.ts'
import { insertAnswer, READ, readingOf } from './answer.ts'
import { sqliteBatches } from './batches.ts'
import { sqliteErasure } from './erasure.ts'
import { EventLoopTurn } from './event-loop-turn.ts'
import type { OpenFile } from './client.ts'
import { findLibrary } from './library.ts'
import { isTransient } from './failure.ts'
import { sqliteInbox } from './inbox.ts'
import { sqliteLeases } from './leases.ts'
import { sqliteNamespaces } from './namespaces.ts'
import { sqliteOutbox } from './outbox.ts'
import type { BusyRetry } from './busy-retry.ts'
import { fileReader, memoryReader } from './reader.ts'
import { sqliteRedrives } from './redrives.ts'
import { claimOver, claimRecord } from './record.ts'
import { sqliteRetention } from './retention.ts'
import { sqliteSchema } from './schema.ts'
import { sqliteSession } from './session.ts'
import { Handles, type SqlTx } from './tx.ts'
import { Writer, type WriterLimits } from './writer.ts'

export interface SqliteOptions {
  /** The path of the database file, which is created on first use. ':memory:' lives as long as the store. */
  file: string
}

export interface SqliteStore extends SqlStore<SqlTx> {
  /**
   * Runs a transaction without a key, for your own tables. It commits when `work` resolves, and rolls back when `work`
   * rejects.
   */
  transaction<R>(work: (tx: SqlTx) => Promise<R>): Promise<R>
}

/** Tests replace these parts. */
export interface SqliteParts {
  clock?: Clock
  random?: Random
  library?: () => Promise<OpenFile>
  limits?: Partial<WriterLimits>
}

/**
 * The embedded store. It opens the file itself and does not share its connection, because handlers that await would end
 * up in each other's transactions. If you open the same file elsewhere in this process, use the same library
 * (`node:sqlite`, or `libsql` before Node 22.13). Two copies of SQLite in one process do not see each other's locks.
 */
export function sqliteStore(options: SqliteOptions): SqliteStore {
  return assembleSqliteStore(options)
}

export function assembleSqliteStore(options: SqliteOptions, parts: SqliteParts = {}): SqliteStore {
  const file: unknown = options?.file
  requireFile(file)
  const inMemory = file.includes(':memory:') || file.includes('mode=memory')
  const library = once(parts.library ?? findLibrary)
  const clock = parts.clock ?? systemClock
  const retry: BusyRetry = { file, clock, random: parts.random ?? systemRandom, eventLoop: new EventLoopTurn(clock) }
  // An in-memory database has no fsync to share, and its readers use the writer's connection.
  const shared = inMemory ? { sharedTurnsMax: 1 } : {}
  const writer = new Writer(retry, library, { ...shared, ...parts.limits })
  const reader = inMemory ? memoryReader(writer) : fileReader(retry, library)
  const handles = new Handles()
  return {
    name: 'sqlite',
    features: { transactional: true, concurrentClaims: false, serverDeadline: false },
    schema: sqliteSchema({ file, writer, reader }),
    retention: sqliteRetention(writer),
    leases: sqliteLeases({ writer, reader }),
    batches: sqliteBatches({ writer, handles }),
    outbox: sqliteOutbox({ writer, reader }),
    inbox: sqliteInbox({ writer, reader, handles }),
    redrives: sqliteRedrives({ writer, reader, handles }),
    erasure: sqliteErasure({ writer, reader }),
    streams: sqliteStreams({ writer, reader }),
    namespaces: sqliteNamespaces({ writer, reader, handles }),
    begin: async ({ claim, deadlineMs }): Promise<SqlBegun<SqlTx>> => {
      const turn = await writer.take({ deadlineMs })
      try {
        const first = claimRecord(turn, claim, null)
        // An existing record is replayed, so its commit must be on disk first.
        const again = first.claimed === null && (await turn.restart())
        return { ...(again ? claimRecord(turn, claim, null) : first), session: sqliteSession(turn, handles) }
      } catch (error) {
        await turn.rollback()
        throw error
      }
    },
    open: async ({ deadlineMs }) => sqliteSession(await writer.take({ deadlineMs }), handles),
    status: (params) => sqliteStatus(reader, params),
    read: async ({ id }) => readingOf(await reader.all(READ, [id])),
    refuse: ({ claim, answer }) =>
      writer.write((turn) => {
        const { view, claimed } = claimOver(turn, claim, false)
        if (claimed) insertAnswer(turn, claim.id, claimed.answerDay, answer)
        return view
      }),
    isTransient,
    join: async (tx) => sqliteSession(handles.turnOf(tx), handles, tx),
    close: async () => {
      await writer.close()
      await reader.close()
    },
    transaction: (work) => transaction(writer, handles, work),
  }
}

async function transaction<R>(writer: Writer, handles: Handles, work: (tx: SqlTx) => Promise<R>): Promise<R> {
  const turn = await writer.take()
  const { tx, revoke } = handles.open(turn)
  try {
    const result = await work(tx)
    if ((await turn.commit()) === 'rolledBack') throw onceError('ONCE_ROLLED_BACK')
    return result
  } finally {
    revoke()
    await turn.rollback()
  }
}

function requireFile(file: unknown): asserts file is string {
  // libsql would treat these as the address of a server.
  if (typeof file === 'string' && file !== '' && !/^(?:https?|wss?|libsql):/i.test(file)) return
  throw invalid('sqliteStore({ file }) needs the path of a database file')
}

/** Looks for the library once, and again after a failure. */
function once(find: () => Promise<OpenFile>): () => Promise<OpenFile> {
  let found: Promise<OpenFile> | undefined
  return () => {
    found ??= find().catch((error: unknown) => {
      found = undefined
      throw error
    })
    return found
  }
}
