import { Table } from './table.ts'
import { Transaction } from './transaction.ts'
import type { Change, Isolation } from './transaction.ts'
import { EventLog } from './event-log.ts'
import type { AttemptRow, ConsumerRow, InboxRow, LetterRow, MarkRow, PositionRow } from './inbox-rows.ts'
import type { ActiveRedriveRow, AuditRow, RedriveFenceRow, RedriveItemRow, RedriveRow } from './redrive-rows.ts'
import type {
  AckRow,
  AnswerRow,
  DelayedRow,
  HeldRow,
  RecordRow,
  RecoverRow,
  RelayRow,
  ShardRow,
  ChunkRow,
  StepRow,
} from './rows.ts'
import type { NamespaceRow } from '../../namespaces.ts'
import type { Row } from '../../store.ts'

/** The clock of the database. It may jump, and processes cannot read it. Timers use a clock that does not jump. */
export interface DatabaseClock {
  /** Milliseconds since 1970, with fractions. */
  now(): number
  after(ms: number, callback: () => void): () => void
}

const systemDatabaseClock: DatabaseClock = {
  now: () => performance.timeOrigin + performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    timer.unref?.()
    return () => clearTimeout(timer)
  },
}

/**
 * Runs for every row that a user's statement inserts into the table. An error that the trigger throws is the
 * statement's error.
 */
export type Trigger = (work: { readonly tx: Transaction }, row: Row) => void | Promise<void>

/** Reports to checkers which changes became durable, and which transactions waited for which. */
export interface DatabaseObserver {
  committed?(tx: Transaction, changes: readonly Change[], now: number): void
  waited?(tx: Transaction, other: Transaction, what: string): void
}

export interface DatabaseOptions {
  readonly clock?: DatabaseClock
  /** Columns that must be unique together, by table. */
  readonly unique?: Readonly<Record<string, readonly string[]>>
  /** Triggers by table. A trigger runs after each row. */
  readonly triggers?: Readonly<Record<string, Trigger>>
  /** Deferred constraints by table. COMMIT checks each row that was inserted or changed. */
  readonly deferred?: Readonly<Record<string, (row: Row) => void>>
  readonly observer?: DatabaseObserver
  /** Another schema of the same database. Both schemas share the advisory locks. */
  readonly beside?: MemoryDatabase
  /**
   * How long one lock of a key outlives its transaction, in milliseconds. A real server also releases the locks of a
   * transaction one after the other.
   */
  readonly lingers?: () => number
}

export interface BeginOptions {
  /** The server ends the transaction after this time. */
  readonly deadlineMs?: number
  readonly isolation?: Isolation
  /** false: the transaction is one statement that commits by itself. */
  readonly interactive?: boolean
}

/**
 * Matches the lock of a key. No transaction waits for such a lock: if the lock is taken, the caller is refused or reads
 * again.
 */
const KEY_LOCK = /^(\d+ )?-?\d+$/

/** One database server in memory: committed rows, open transactions, locks and a clock. It outlives every process. */
export class MemoryDatabase {
  readonly clock: DatabaseClock
  readonly unique: Readonly<Record<string, readonly string[]>>
  readonly triggers: Readonly<Record<string, Trigger>>
  readonly deferred: Readonly<Record<string, (row: Row) => void>>
  observer: DatabaseObserver | null
  readonly records: Table<RecordRow> = new Table('record')
  readonly answers: Table<AnswerRow> = new Table('answer')
  readonly steps: Table<StepRow> = new Table('step')
  readonly chunks: Table<ChunkRow> = new Table('chunk')
  readonly recover: Table<RecoverRow> = new Table('recover')
  readonly events: EventLog = new EventLog()
  readonly relays: Table<RelayRow> = new Table('relay')
  readonly shards: Table<ShardRow> = new Table('shard')
  readonly acks: Table<AckRow> = new Table('ack')
  readonly held: Table<HeldRow> = new Table('held')
  /** By event id. */
  readonly delayed: Table<DelayedRow> = new Table('delayed')
  readonly consumers: Table<ConsumerRow> = new Table('consumer')
  readonly inbox: Table<InboxRow> = new Table('inbox')
  readonly marks: Table<MarkRow> = new Table('mark')
  readonly attempts: Table<AttemptRow> = new Table('attempt')
  readonly letters: Table<LetterRow> = new Table('letter')
  readonly positions: Table<PositionRow> = new Table('position')
  readonly redrives: Table<RedriveRow> = new Table('redrive')
  readonly redriveFences: Table<RedriveFenceRow> = new Table('redriveFence')
  readonly redriveItems: Table<RedriveItemRow> = new Table('redriveItem')
  readonly activeRedrives: Table<ActiveRedriveRow> = new Table('activeRedrive')
  readonly audits: Table<AuditRow> = new Table('audit')
  readonly namespaces: Table<NamespaceRow> = new Table('namespace')
  readonly user: Map<string, Table<Row>> = new Map()
  readonly advisory: Map<string, Transaction>
  readonly open: Set<Transaction> = new Set()
  version = 0
  private readonly schema: number
  private readonly lingers: () => number
  private readonly timers = new Map<Transaction, () => void>()
  private serial = 0
  private eventSerial = 0
  private resends = 0
  private redriveSerial = 0

  constructor(options: DatabaseOptions = {}) {
    this.clock = options.clock ?? systemDatabaseClock
    this.unique = options.unique ?? {}
    this.triggers = options.triggers ?? {}
    this.deferred = options.deferred ?? {}
    this.observer = options.observer ?? null
    this.advisory = options.beside?.advisory ?? new Map()
    this.lingers = options.lingers ?? (() => 0)
    this.schema = options.beside === undefined ? 0 : options.beside.schema + 1
  }

  /** Advisory locks are numbers that all schemas of a database share. The first schema uses them without a prefix. */
  lockName(lock: string): string {
    return this.schema === 0 ? lock : `${this.schema} ${lock}`
  }

  /** The lock of a key may outlive its transaction. A lock that a savepoint's rollback releases is free at once. */
  unlock(lock: string, tx: Transaction): void {
    const ms = tx.ended && KEY_LOCK.test(lock) ? this.lingers() : 0
    if (ms === 0) this.advisory.delete(lock)
    else this.clock.after(ms, () => this.advisory.delete(lock))
  }

  /** The time of clock_timestamp(), in microseconds. */
  now(): number {
    return Math.floor(this.clock.now() * 1000)
  }

  next(): number {
    return ++this.serial
  }

  /** Draws the next sequence number of events. The number is used up even if the transaction rolls back. */
  nextSeq(): number {
    return ++this.eventSerial
  }

  nextResend(): number {
    return ++this.resends
  }

  nextRedrive(): number {
    return ++this.redriveSerial
  }

  begin(options: BeginOptions = {}): Transaction {
    const { isolation = 'read committed', interactive = true } = options
    const tx = new Transaction(this, this.next(), isolation, interactive)
    this.open.add(tx)
    if (options.deadlineMs !== undefined) this.expireAfter(tx, options.deadlineMs)
    return tx
  }

  table(name: string): Table<Row> {
    const known = this.user.get(name)
    if (known !== undefined) return known
    const table = new Table<Row>(name)
    this.user.set(name, table)
    return table
  }

  committed(tx: Transaction, changes: readonly Change[]): void {
    this.observer?.committed?.(tx, changes, this.now())
  }

  ended(tx: Transaction): void {
    this.open.delete(tx)
    this.timers.get(tx)?.()
    this.timers.delete(tx)
  }

  private expireAfter(tx: Transaction, ms: number): void {
    this.timers.set(
      tx,
      this.clock.after(ms, () => tx.kill()),
    )
  }
}
