import { onceError } from '../../errors.ts'
import { ANSWER_SLACK_MS, SERVER_DEADLINE_SLACK_MS } from '../../limits.ts'
import { withLater } from '../dead-letters.ts'
import type {
  FailedParams,
  Inbox,
  EnterParams,
  InboxState,
  LookParams,
  OpenInboxParams,
  ParkParams,
  PositionsParams,
  StoredPosition,
  SweptInbox,
  Taken,
  TakeParams,
  Tries,
  TryingParams,
} from '../inbox.ts'
import { triesOf } from '../sql/inbox-rows.ts'
import type { Row, Session } from '../store.ts'
import { arrayLiteral, arraysOf } from './array-literal.ts'
import { explained } from './commit.ts'
import type { PgDriver } from './driver/driver.ts'
import { sessionError, storeError, told } from './errors.ts'
import { idsIn, itemArrays, letterArrays, lockArrays, positionArrays, statesOf } from './inbox-rows.ts'
import { PostgresInboxSession } from './inbox-session.ts'
import { inboxStatements, type InboxBind, type InboxStatementName } from './inbox-statements.ts'
import { InboxSweeper } from './inbox-sweeper.ts'
import { PostgresLetters } from './letters.ts'
import { PostgresSession } from './session.ts'
import type { Bind } from './statements.ts'

/** Consumers on PostgreSQL. Every method except `take`, `enter` and `park` is one statement. */
export class PostgresInbox<Tx> implements Inbox<Tx> {
  readonly letters: PostgresLetters<Tx>
  readonly #driver: PgDriver<Tx>
  readonly #bind: InboxBind
  readonly #bindAll: Bind
  readonly #schema: string
  readonly #sweeper: InboxSweeper<Tx>

  constructor(driver: PgDriver<Tx>, bind: Bind, schema: string) {
    this.#driver = driver
    this.#bindAll = bind
    this.#bind = inboxStatements(schema, driver.parameters)
    this.#schema = schema
    this.#sweeper = new InboxSweeper(driver, schema)
    this.letters = new PostgresLetters(driver, this.#bind, schema)
  }

  async open({ consumer, inboxForMs, rememberForMs, lettersForMs }: OpenInboxParams): Promise<void> {
    await this.#query('inboxOpen', [consumer, inboxForMs, rememberForMs, lettersForMs])
  }

  async take({ consumer, items, deadlineMs, redrive = false }: TakeParams): Promise<Taken<Tx>> {
    const deadline = String(deadlineMs + SERVER_DEADLINE_SLACK_MS)
    return told(this.#schema, async () => {
      const first = this.#bind('inboxTake', [consumer, redrive, deadline, ...itemArrays(items)])
      const { connection, rows } = await this.#driver.begin(first, { withinMs: deadlineMs + ANSWER_SLACK_MS })
      const session = new PostgresSession(connection, this.#bindAll, this.#schema)
      const states = statesOf(rows[0])
      const taken = items.flatMap(({ id }, i) => (states[i] === 'taken' && !redrive ? id : []))
      const of = { xid: String(rows[0]?.['xid']), schema: this.#schema, taken }
      return { states, session: new PostgresInboxSession(connection, session, this.#bind, of) }
    })
  }

  async look({ consumer, items, redrive = false }: LookParams): Promise<readonly InboxState[]> {
    return statesOf((await this.#query('inboxLook', [consumer, redrive, ...itemArrays(items)]))[0])
  }

  async enter(session: Session<Tx>, { consumer, item, redrive = false }: EnterParams): Promise<boolean> {
    return told(this.#schema, async () => {
      const lock = this.#bind('inboxEnterLock', [item.lock])
      const enter = this.#bind('inboxEnter', [consumer, redrive, ...itemArrays([item])])
      const outcome = await this.#driver.join(session.tx).pipeline([lock, enter])
      if (outcome.kind === 'failed') throw sessionError(outcome.error, this.#schema)
      // If only the second statement got the lock, the lock is younger than the statement's snapshot. So both must have
      // got it.
      return outcome.rows[0]?.[0]?.['had'] === true && outcome.rows[1]?.length === 1
    })
  }

  async trying({ consumer, ids }: TryingParams): Promise<readonly Tries[]> {
    return (await this.#query('inboxTrying', [consumer, arrayLiteral(ids)])).map(triesOf)
  }

  async untry({ ids }: TryingParams): Promise<void> {
    await this.#query('inboxUntry', [arrayLiteral(ids)])
  }

  async tries({ ids }: TryingParams): Promise<readonly Tries[]> {
    return (await this.#query('inboxTries', [arrayLiteral(ids)])).map(triesOf)
  }

  async failed({ consumer, failures }: FailedParams): Promise<readonly Tries[]> {
    const rows = await this.#query('inboxFailed', [
      consumer,
      ...arraysOf(failures, 'id', 'counted', 'error', 'fingerprint'),
    ])
    return rows.map(triesOf)
  }

  async park({ consumer, letters, positions, deadlineMs }: ParkParams): Promise<readonly string[]> {
    return told(this.#schema, async () => {
      const first = this.#bind('inboxLock', [String(deadlineMs + SERVER_DEADLINE_SLACK_MS), ...lockArrays(letters)])
      const { connection, rows } = await this.#driver.begin(first, { withinMs: deadlineMs + ANSWER_SLACK_MS })
      const running = withLater(letters, idsIn(rows[0]?.['busy']))
      const free = letters.filter(({ id }) => !running.includes(id))
      const passed = positionArrays(consumer, running.length > 0 ? null : positions)
      const last = this.#bind('inboxPark', [consumer, ...letterArrays(free), ...passed])
      const ending = await explained(connection.commit(last), this.#schema, storeError)
      if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
      return running
    })
  }

  async positions({ consumer, source }: PositionsParams): Promise<readonly StoredPosition[]> {
    const rows = await this.#query('inboxPositions', [consumer, source])
    return rows.map((row) => ({ partition: String(row['partition']), next: String(row['next']) }))
  }

  async pass(params: PositionsParams & { readonly positions: readonly StoredPosition[] }): Promise<void> {
    await this.#query('inboxPass', positionArrays(params.consumer, params))
  }

  sweep(params: { readonly limit: number; readonly signal?: AbortSignal | undefined }): Promise<SweptInbox> {
    return told(this.#schema, () => this.#sweeper.sweep(params.limit, params.signal))
  }

  #query(name: InboxStatementName, values: readonly unknown[]): Promise<readonly Row[]> {
    return told(this.#schema, () => this.#driver.query(this.#bind(name, values)))
  }
}
