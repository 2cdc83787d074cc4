import { onceError } from '../../errors.ts'
import { ANSWER_SLACK_MS, BATCH_REQUESTS_MAX, BATCHES_IN_FLIGHT_MAX, SERVER_DEADLINE_SLACK_MS } from '../../limits.ts'
import type {
  Batches,
  BatchParams,
  BatchSession,
  Claimed,
  CompleteParams,
  EffectsOutcome,
  UserStatement,
} from '../store.ts'
import type { LockBudget } from '../lock-budget.ts'
import { arrayLiteral, arraysOf } from './array-literal.ts'
import { explained } from './commit.ts'
import { needsView } from './delayed.ts'
import type { PgConnection, PgDriver } from './driver/driver.ts'
import { takesTransaction } from './driver/control.ts'
import { storeError } from './errors.ts'
import { base64 } from './prepared.ts'
import { answerValues, claimedOf, eventArrays } from './rows.ts'
import { isPlanStale, isPreparedStatementLost, isRaised, isTimedOut, sqlStateOf } from './driver/sqlstate.ts'
import type { Bind } from './statements.ts'
import { UserStatements } from './driver/user-statements.ts'

/** Many requests in one transaction: one claim statement, each request's own effect, one completing statement. */
export class PostgresBatches<Tx> implements Batches {
  readonly #driver: PgDriver<Tx>
  readonly #bind: Bind
  readonly #schema: string
  readonly #users: UserStatements
  readonly #locks: LockBudget

  constructor(driver: PgDriver<Tx>, bind: Bind, schema: string, locks: LockBudget) {
    this.#driver = driver
    this.#bind = bind
    this.#schema = schema
    this.#users = new UserStatements(driver)
    this.#locks = locks
  }

  async limit(): Promise<number> {
    await this.#locks.open()
    return Math.max(1, Math.min(BATCH_REQUESTS_MAX, Math.floor(this.#locks.most(BATCHES_IN_FLIGHT_MAX) / LOCKS_EACH)))
  }

  isCrowded(error: unknown): boolean {
    return this.#locks.isCrowded(error)
  }

  async open({ deadlineMs, claims, rerun }: BatchParams): ReturnType<Batches['open']> {
    const [first] = claims
    const locks = claims.length * LOCKS_EACH
    this.#locks.hold(locks)
    try {
      const { connection, rows } = await this.#driver.begin(
        this.#bind('batchClaim', [
          ...arraysOf(claims, 'id', 'scope', 'fingerprint', 'lock'),
          first?.fingerprintVersion ?? 1,
          first?.replayForMs ?? 0,
          first?.goneForMs ?? 0,
          String(Math.ceil(deadlineMs) + SERVER_DEADLINE_SLACK_MS),
          rerun,
          ...arraysOf(claims, 'fingerprintLock'),
        ]),
        { withinMs: deadlineMs + ANSWER_SLACK_MS },
      )
      const won = new Map(rows.map((row) => [String(row['id']), claimedOf(row) as Claimed]))
      return {
        session: new PostgresBatchSession(connection, {
          bind: this.#bind,
          users: this.#users,
          schema: this.#schema,
          xid: String(rows[0]?.['xid'] ?? ''),
          ended: () => this.#locks.give(locks),
        }),
        won,
      }
    } catch (error) {
      this.#locks.give(locks)
      throw storeError(error, this.#schema)
    }
  }
}

class PostgresBatchSession<Tx> implements BatchSession {
  readonly #connection: PgConnection<Tx>
  readonly #bind: Bind
  readonly #users: UserStatements
  readonly #schema: string
  readonly #xid: string
  #ended: () => void

  constructor(
    connection: PgConnection<Tx>,
    of: { bind: Bind; users: UserStatements; schema: string; xid: string; ended: () => void },
  ) {
    this.#connection = connection
    this.#bind = of.bind
    this.#users = of.users
    this.#schema = of.schema
    this.#xid = of.xid
    this.#ended = of.ended
  }

  async effects(statements: readonly UserStatement[]): Promise<EffectsOutcome> {
    const bound = statements.map((statement) => this.#users.bind(statement))
    const taking = statements.findIndex(({ sql }) => takesTransaction(sql))
    if (taking >= 0) return { kind: 'failed', index: taking, error: onceError('ONCE_TX_TAKEN') }
    const outcome = await this.#connection.pipeline(bound)
    if (outcome.kind === 'done') return outcome
    const { index, error, lost } = outcome
    const late = isLate(error)
    if (lost || late) return { kind: 'ended', index, late, error: storeError(error, this.#schema) }
    // A table changed under a prepared statement, or a pooler lost the statement. The next try prepares it again.
    const unprepared = bound[index]?.name !== '' && (isPlanStale(error) || isPreparedStatementLost(error))
    return { kind: 'failed', index, error: unprepared ? onceError('ONCE_CONFLICT', { cause: error }) : error }
  }

  async complete(items: readonly Omit<CompleteParams, 'fenced'>[]): Promise<'committed' | 'rolledBack'> {
    const answers = items.map(({ answer }) => answerValues(answer))
    const events = items.flatMap((item) => item.events)
    const last = this.#bind(events.some(needsView) ? 'batchCompleteOrdered' : 'batchComplete', [
      arrayLiteral(items.map(({ claim }) => claim.id)),
      arrayLiteral(items.map(({ claimed }) => claimed.answerDay)),
      arrayLiteral(items.map(({ claimed }) => claimed.token)),
      arrayLiteral(answers.map(([status]) => status)),
      arrayLiteral(answers.map(([, headers]) => headers)),
      arrayLiteral(answers.map(([, , body]) => body && base64(body))),
      arrayLiteral(answers.map(([, , , kept]) => kept)),
      this.#xid,
      ...eventArrays(events),
    ])
    return explained(this.#connection.commit(last), this.#schema, storeError).finally(() => this.#end())
  }

  rollback(): Promise<void> {
    return this.#connection.rollback().finally(() => this.#end())
  }

  #end(): void {
    this.#ended()
    this.#ended = () => {}
  }
}

/** One lock of the identity, and one of the fingerprint. */
const LOCKS_EACH = 2
/** From version 17 on, the server ends the connection. Earlier versions end the statement that takes too long. */
function isLate(error: unknown): boolean {
  return isTimedOut(error) || (sqlStateOf(error) === '57014' && !isRaised(error))
}
