import { onceError } from '../../errors.ts'
import type { StoredRecord } from '../../lifecycle/record.ts'
import type {
  Claim,
  Claimed,
  CompleteParams,
  EventRow,
  FinishStepParams,
  Reading,
  Row,
  Savepoint,
  Session,
  SqlSession,
  TakeTurn,
  UserStatement,
} from '../store.ts'
import type { Cancellation } from '../cancellation.ts'
import type { CancelParams } from '../outbox.ts'
import { explained } from './commit.ts'
import { cancelDelayed, needsView } from './delayed.ts'
import type { PgConnection, PgStatement } from './driver/driver.ts'
import { readOnlyDatabase, sessionError, storeError, writeError } from './errors.ts'
import { takesTransaction } from './driver/control.ts'
import { soundsEnded } from './driver/sqlstate.ts'
import { recordOf } from '../sql/record-rows.ts'
import { answerOf, answerValues, claimedOf, eventArrays, eventValues, shownBy } from './rows.ts'
import type { Shown } from './rows.ts'
import type { Bind } from './statements.ts'

/**
 * Two sessions may use one connection, the user's own. Names count up for both, so that a session never uses the
 * other's savepoint.
 */
let savepoints = 0

/** One open PostgreSQL transaction that carries a claim, a step, or the user's own work. */
export class PostgresSession<Tx> implements SqlSession<Tx> {
  readonly tx: Tx
  readonly #connection: PgConnection<Tx>
  readonly #bind: Bind
  readonly #schema: string
  /**
   * Our transaction: the one we opened, or the one of the first claim. If it differs at completion, the handler ended
   * ours.
   */
  #xid: string
  /** The result of the last claim. For a record that can be replayed, it has the answer. */
  #shown: Shown | undefined

  constructor(connection: PgConnection<Tx>, bind: Bind, schema: string, shown?: Shown, xid?: string) {
    this.tx = connection.tx
    this.#connection = connection
    this.#bind = bind
    this.#schema = schema
    this.#shown = shown
    this.#xid = xid ?? shown?.xid ?? ''
  }

  revocable(takeTurn?: TakeTurn): { readonly tx: Tx; revoke(): void } {
    return this.#connection.revocable(takeTurn)
  }

  async execute({ sql, values }: UserStatement): Promise<readonly Row[]> {
    if (takesTransaction(sql)) throw onceError('ONCE_TX_TAKEN')
    const outcome = await this.#connection.pipeline([{ name: '', text: sql, values }])
    if (outcome.kind === 'failed') throw outcome.error
    return outcome.rows[0] ?? []
  }

  async claim(claim: Claim): ReturnType<Session<Tx>['claim']> {
    const [row] = await this.#query(this.#bind('claim', claimValues(claim, 0)))
    const { view, claimed, xid } = (this.#shown = shownBy(row, claim))
    if (claimed) this.#xid ||= xid
    return { view, claimed }
  }

  async reread(claim: Claim): Promise<StoredRecord | null> {
    const [row] = await this.#query(this.#bind('readRecord', [claim.id]))
    return recordOf(row)
  }

  async renew(claim: Claim, seen: StoredRecord): Promise<Claimed | null> {
    const [row] = await this.#query(
      this.#bind('renew', [
        claim.id,
        seen.token,
        claim.fingerprint,
        claim.fingerprintVersion,
        claim.replayForMs,
        claim.goneForMs,
        seen.state === 'completed',
      ]),
    )
    const claimed = claimedOf(row)
    if (claimed) this.#xid ||= String(row?.['xid'])
    return claimed
  }

  async read(params: { readonly id: string; readonly seen?: StoredRecord }): Promise<Reading> {
    const record = params.seen ?? recordOf((await this.#query(this.#bind('readRecord', [params.id])))[0])
    if (record?.state !== 'completed') return { record, answer: null }
    if (this.#shown?.answer && this.#shown.view.record === record) return { record, answer: this.#shown.answer }
    const [row] = await this.#query(this.#bind('readAnswer', [params.id, record.answerDay, record.token]))
    return { record, answer: answerOf(row) }
  }

  complete(params: CompleteParams): Promise<'committed' | 'rolledBack'> {
    return explained(this.#connection.commit(this.#completing(params)), this.#schema)
  }

  async completeInside(params: CompleteParams): Promise<void> {
    await this.#write(this.#completing(params))
  }

  async append(events: readonly EventRow[]): Promise<void> {
    await this.#write(this.#bind(events.some(needsView) ? 'appendOrdered' : 'append', eventArrays(events)))
  }

  cancel(params: CancelParams): Promise<Cancellation> {
    return cancelDelayed((name, values) => this.#query(this.#bind(name, values)), params)
  }

  async completeStep(params: FinishStepParams): Promise<'committed' | 'rolledBack'> {
    const last = this.#bind('completeStep', [
      params.id,
      params.token,
      params.life,
      params.name,
      params.result,
      this.#xid,
    ])
    return explained(this.#connection.commit(last), this.#schema)
  }

  async savepoint(): Promise<Savepoint> {
    const name = `effectively_once_${++savepoints}`
    await this.#quietly(`savepoint ${name}`)
    return {
      release: () => this.#quietly(`release savepoint ${name}`),
      rollback: async () => {
        await this.#quietly(`rollback to savepoint ${name}`)
        // After the rollback the savepoint is still open, and costs the server memory until the transaction ends.
        await this.#quietly(`release savepoint ${name}`)
      },
    }
  }

  rollback(): Promise<void> {
    return this.#connection.rollback()
  }

  blame(error: unknown): Promise<unknown> | undefined {
    try {
      return soundsEnded(error) ? this.#blamed(error) : undefined
    } catch {
      // The error cannot even be read.
      return undefined
    }
  }

  async #blamed(error: unknown): Promise<unknown> {
    const by = await this.#connection.endedBy(error)
    return by === undefined ? undefined : storeError(by, this.#schema)
  }

  leave(): void {
    if (this.#connection.leave) this.#connection.leave()
    else void this.#connection.rollback()
  }

  async written(): Promise<number | null> {
    const [row] = await this.#query({ name: '', text: WRITTEN_SQL, values: [this.#schema.replaceAll('"', '')] })
    const rows = row?.['rows']
    return typeof rows === 'number' ? rows : null
  }

  /** The user's own transaction must be open and writable, and a new statement must see what others have committed. */
  async check(): Promise<void> {
    const savepoint = await this.savepoint()
    await savepoint.release()
    const [row] = await this.#query({
      name: '',
      text: CHECK_SQL,
      values: [],
    })
    if (row?.['read_only'] === true) {
      if (row['by_default'] === true) throw readOnlyDatabase()
      throw onceError('ONCE_TX_REQUIRED', { detail: 'join() needs a transaction that can write, not a READ ONLY one' })
    }
    if (row?.['level'] !== 'read committed') {
      throw onceError('ONCE_TX_ISOLATION', {
        detail: `join() needs READ COMMITTED, not ${String(row?.['level']).toUpperCase()}: a stricter level hides the record of a running duplicate`,
      })
    }
  }

  #completing({ claim, claimed, answer, events, fenced }: CompleteParams): PgStatement {
    const values = fenced
      ? [claim.id, claimed.token, ...answerValues(answer), claim.replayForMs, claim.goneForMs, this.#xid]
      : [claim.id, claimed.answerDay, claimed.token, ...answerValues(answer), this.#xid]
    const [event] = events
    if (!event) return this.#bind(fenced ? 'completeLeased' : 'complete', values)
    if (events.some(needsView))
      return this.#bind(fenced ? 'completeLeasedOrdered' : 'completeOrdered', [...values, ...eventArrays(events)])
    if (events.length > 1)
      return this.#bind(fenced ? 'completeLeasedEvents' : 'completeEvents', [...values, ...eventArrays(events)])
    return this.#bind(fenced ? 'completeLeasedEvent' : 'completeEvent', [...values, ...eventValues(event)])
  }

  /** Statements that are under way belong before the savepoint command. */
  async #quietly(text: string): Promise<void> {
    await this.#connection.quiet?.()
    await this.#query({ name: '', text, values: [] })
  }

  async #write(statement: PgStatement): Promise<void> {
    try {
      await this.#connection.query(statement)
    } catch (error) {
      throw writeError(error, this.#schema)
    }
  }

  async #query(statement: PgStatement): Promise<readonly Record<string, unknown>[]> {
    try {
      return await this.#connection.query(statement)
    } catch (error) {
      throw sessionError(error, this.#schema)
    }
  }
}

/** `deadlineMs` 0 keeps the transaction's own deadline. */
export function claimValues(claim: Claim, deadlineMs: number): unknown[] {
  return [
    claim.fingerprintLock,
    claim.lock,
    claim.id,
    claim.scope,
    claim.fingerprint,
    claim.fingerprintVersion,
    claim.replayForMs,
    claim.goneForMs,
    String(deadlineMs),
  ]
}

/** `by_default`: the server or the role makes every transaction read-only. */
const CHECK_SQL = `
select current_setting('transaction_isolation') as level, current_setting('transaction_read_only')::bool as read_only,
       current_setting('default_transaction_read_only')::bool or pg_is_in_recovery() as by_default`

/** Development only: rows written by this transaction outside our own schema, by the server's counters. $1 schema */
const WRITTEN_SQL = `
select case when current_setting('track_counts')::bool then coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::float8 end as rows
  from pg_stat_xact_user_tables where schemaname <> $1::text`
