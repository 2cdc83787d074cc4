import { onceError } from '../../errors.ts'
import { BATCH_LOCK_SHARE, BATCH_REQUESTS_MAX, BATCHES_IN_FLIGHT_MAX } from '../../limits.ts'
import type {
  Batches,
  BatchParams,
  BatchSession,
  Claimed,
  CompleteParams,
  EffectsOutcome,
  UserStatement,
} from '../store.ts'
import { isOrdered } from '../ordered.ts'
import { arrayLiteral } from './array-literal.ts'
import { commit } from './commit.ts'
import type { PgConnection, PgDriver } from './driver.ts'
import { storeError } from './errors.ts'
import { answerValues, claimedOf, eventArrays } from './rows.ts'
import { isConnectionLost, isPreparedStatementLost, sqlStateOf } from './sqlstate.ts'
import type { Bind } from './statements.ts'
import { UserStatements } from './user-statements.ts'

/** Many requests in one transaction: one claim statement, each request's own effect, one completing statement. */
export class PostgresBatches<Tx> implements Batches {
  readonly #driver: PgDriver<Tx>
  readonly #bind: Bind
  readonly #schema: string
  readonly #users: UserStatements

  constructor(driver: PgDriver<Tx>, bind: Bind, schema: string) {
    this.#driver = driver
    this.#bind = bind
    this.#schema = schema
    this.#users = new UserStatements(driver)
  }

  /** Advisory locks are a budget all transactions share: past it, whoever asks next fails with 53200. */
  async limit(): Promise<number> {
    try {
      const [row] = await this.#driver.query({ name: '', text: LOCK_BUDGET_SQL, values: [] })
      const share = Math.floor(Number(row?.['budget']) / BATCH_LOCK_SHARE / BATCHES_IN_FLIGHT_MAX / LOCKS_EACH)
      return Math.max(1, Math.min(BATCH_REQUESTS_MAX, share))
    } catch (error) {
      throw storeError(error, this.#schema)
    }
  }

  isCrowded(error: unknown): boolean {
    return sqlStateOf(error) === OUT_OF_SHARED_MEMORY
  }

  async open({ deadlineMs, claims, rerun }: BatchParams): ReturnType<Batches['open']> {
    const [first] = claims
    try {
      const { connection, rows } = await this.#driver.begin(
        this.#bind('batchClaim', [
          arrayLiteral(claims.map((claim) => claim.id)),
          arrayLiteral(claims.map((claim) => claim.scope)),
          arrayLiteral(claims.map((claim) => claim.fingerprint)),
          arrayLiteral(claims.map((claim) => claim.lock)),
          first?.fingerprintVersion ?? 1,
          first?.replayForMs ?? 0,
          first?.goneForMs ?? 0,
          String(deadlineMs),
          rerun,
          arrayLiteral(claims.map((claim) => claim.fingerprintLock)),
        ]),
      )
      const won = new Map(rows.map((row) => [String(row['id']), claimedOf(row) as Claimed]))
      return {
        session: new PostgresBatchSession(connection, {
          bind: this.#bind,
          users: this.#users,
          schema: this.#schema,
          xid: String(rows[0]?.['xid'] ?? ''),
        }),
        won,
      }
    } catch (error) {
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

  constructor(connection: PgConnection<Tx>, of: { bind: Bind; users: UserStatements; schema: string; xid: string }) {
    this.#connection = connection
    this.#bind = of.bind
    this.#users = of.users
    this.#schema = of.schema
    this.#xid = of.xid
  }

  async effects(statements: readonly UserStatement[]): Promise<EffectsOutcome> {
    const outcome = await this.#connection.pipeline(statements.map((statement) => this.#users.bind(statement)))
    // A table changed under a prepared statement, or a pooler lost it: nobody's fault, and the next try prepares it anew.
    if (outcome.kind === 'failed' && isConnectionLost(outcome.error)) {
      return { kind: 'failed', index: statements.length, error: outcome.error }
    }
    if (outcome.kind === 'failed' && isPreparationLost(outcome.error)) {
      return { ...outcome, error: onceError('ONCE_CONFLICT', { cause: outcome.error }) }
    }
    return outcome
  }

  async complete(items: readonly Omit<CompleteParams, 'fenced'>[]): Promise<'committed' | 'rolledBack'> {
    const answers = items.map(({ answer }) => answerValues(answer))
    const events = items.flatMap((item) => item.events)
    const last = this.#bind(events.some(isOrdered) ? 'batchCompleteOrdered' : 'batchComplete', [
      arrayLiteral(items.map(({ claim }) => claim.id)),
      arrayLiteral(items.map(({ claimed }) => claimed.answerDay)),
      arrayLiteral(items.map(({ claimed }) => claimed.token)),
      arrayLiteral(answers.map(([status]) => status)),
      arrayLiteral(answers.map(([, headers]) => headers)),
      arrayLiteral(answers.map(([, , body]) => body)),
      arrayLiteral(answers.map(([, , , kept]) => kept)),
      this.#xid,
      ...eventArrays(events),
    ])
    return commit(this.#connection, last, this.#schema)
  }

  rollback(): Promise<void> {
    return this.#connection.rollback()
  }
}

/** The identity's and the fingerprint's. */
const LOCKS_EACH = 2
const OUT_OF_SHARED_MEMORY = '53200'
const PLAN_STALE = '0A000'

function isPreparationLost(error: unknown): boolean {
  return sqlStateOf(error) === PLAN_STALE || isPreparedStatementLost(error)
}

const LOCK_BUDGET_SQL = `
select (current_setting('max_locks_per_transaction')::int8 * (current_setting('max_connections')::int8 + current_setting('max_prepared_transactions')::int8))::float8 as budget`
