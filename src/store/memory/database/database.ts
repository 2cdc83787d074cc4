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
  StepRow,
} from './rows.ts'
import type { NamespaceRow } from '../../namespaces.ts'
import type { Row } from '../../store.ts'

/** The database's own time: no process has it, and it may jump. Timers run by a clock that does not. */
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

/** Runs with every row a user's statement inserts into its table. What it throws is the statement's error. */
export type Trigger = (work: { readonly tx: Transaction }, row: Row) => void | Promise<void>

/** Ground truth for checkers: what became durable, and who waited for whom. */
export interface DatabaseObserver {
  committed?(tx: Transaction, changes: readonly Change[], now: number): void
  waited?(tx: Transaction, other: Transaction, what: string): void
}

export interface DatabaseOptions {
  readonly clock?: DatabaseClock
  /** Columns that must be unique together, by table. */
  readonly unique?: Readonly<Record<string, readonly string[]>>
  /** By table, after each row. */
  readonly triggers?: Readonly<Record<string, Trigger>>
  /** By table, at COMMIT, with each row that was inserted or changed. */
  readonly deferred?: Readonly<Record<string, (row: Row) => void>>
  readonly observer?: DatabaseObserver
  /** Another schema of the same database: advisory locks belong to both. */
  readonly beside?: MemoryDatabase
  /** For how long one lock of a key outlives its transaction, in milliseconds: a server releases one after the other. */
  readonly lingers?: () => number
}

export interface BeginOptions {
  /** Past it the server ends the transaction. */
  readonly deadlineMs?: number
  readonly isolation?: Isolation
  /** false: one statement that commits by itself. */
  readonly interactive?: boolean
}

/** Nobody waits for the lock of a key: whoever finds it taken is refused, or looks again. */
const KEY_LOCK = /^(\d+ )?-?\d+$/

/** One database server in memory: committed rows, open transactions, locks, and a clock. It outlives every process. */
export class MemoryDatabase {
  readonly clock: DatabaseClock
  readonly unique: Readonly<Record<string, readonly string[]>>
  readonly triggers: Readonly<Record<string, Trigger>>
  readonly deferred: Readonly<Record<string, (row: Row) => void>>
  observer: DatabaseObserver | null
  readonly records: Table<RecordRow> = new Table('record')
  readonly answers: Table<AnswerRow> = new Table('answer')
  readonly steps: Table<StepRow> = new Table('step')
  readonly recover: Table<RecoverRow> = new Table('recover')
  readonly events: EventLog = new EventLog()
  readonly relays: Table<RelayRow> = new Table('relay')
  readonly shards: Table<ShardRow> = new Table('shard')
  readonly acks: Table<AckRow> = new Table('ack')
  readonly held: Table<HeldRow> = new Table('held')
  /** By the id of the event. */
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

  /** A lock is a number of the whole database: the first schema has the bare ones. */
  lockName(lock: string): string {
    return this.schema === 0 ? lock : `${this.schema} ${lock}`
  }

  /** What is part of a transaction goes back with its savepoint, at once. */
  unlock(lock: string, tx: Transaction): void {
    const ms = tx.ended && KEY_LOCK.test(lock) ? this.lingers() : 0
    if (ms === 0) this.advisory.delete(lock)
    else this.clock.after(ms, () => this.advisory.delete(lock))
  }

  /** clock_timestamp() in microseconds. */
  now(): number {
    return Math.floor(this.clock.now() * 1000)
  }

  next(): number {
    return ++this.serial
  }

  /** The sequence of events: drawn at once, whoever commits. */
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
