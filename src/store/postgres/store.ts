import type { ClaimView } from '../../lifecycle/record.ts'
import { ANSWER_SLACK_MS, SERVER_DEADLINE_SLACK_MS } from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import type { LockBudget } from '../lock-budget.ts'
import type {
  BeginParams,
  SqlBegun,
  Reading,
  RefuseParams,
  SqlSession,
  SqlStore,
  StoreFeatures,
  Watch,
} from '../store.ts'
import { PostgresBatches } from './batches.ts'
import type { PgDriver } from './driver/driver.ts'
import { readOnlyDatabase, storeError, told } from './errors.ts'
import { PostgresErasure } from './erasure.ts'
import { PostgresInbox } from './inbox.ts'
import { PostgresLeases } from './leases.ts'
import { lockBudget } from './locks.ts'
import { PostgresNamespaces } from './namespaces.ts'
import { PostgresOutbox } from './outbox.ts'
import { PostgresRedrives } from './redrives.ts'
import { PostgresRetention } from './retention.ts'
import { recordOf } from '../sql/record-rows.ts'
import { answerOf, answerValues, refusalViewOf, shownBy } from './rows.ts'
import { postgresStatus } from './status.ts'
import type { StatusParams, StoredStatus } from '../status.ts'
import { PostgresSchema } from './schema.ts'
import { PostgresStreams } from './streams.ts'
import { claimValues, PostgresSession } from './session.ts'
import { isTransient } from './driver/sqlstate.ts'
import { statements, type Bind } from './statements.ts'

export interface PostgresStoreOptions {
  /** The PostgreSQL schema of our tables. Default: 'effectively_once' */
  schema?: string
}

const OPTIONS: ReadonlySet<string> = new Set(['schema', 'dialect'])
const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,62}$/

/** The store on PostgreSQL, for every client. */
export function postgresStore<Tx>(driver: PgDriver<Tx>, options: PostgresStoreOptions = {}): SqlStore<Tx> {
  const schema = options.schema ?? 'effectively_once'
  if (typeof schema !== 'string' || !SCHEMA_NAME.test(schema)) {
    throw invalid(`schema must match ${SCHEMA_NAME.source}`)
  }
  refuseUnknown(options, OPTIONS, `the ${driver.name} store`)
  // The quotes are a second protection: the name was checked.
  return new PostgresStore(driver, `"${schema}"`)
}

class PostgresStore<Tx> implements SqlStore<Tx> {
  readonly name: string
  readonly features: StoreFeatures
  readonly schema: PostgresSchema<Tx>
  readonly retention: PostgresRetention<Tx>
  readonly leases: PostgresLeases<Tx>
  readonly locks: LockBudget
  readonly batches: PostgresBatches<Tx>
  readonly outbox: PostgresOutbox<Tx>
  readonly inbox: PostgresInbox<Tx>
  readonly redrives: PostgresRedrives<Tx>
  readonly erasure: PostgresErasure<Tx>
  readonly streams: PostgresStreams<Tx>
  readonly namespaces: PostgresNamespaces<Tx>
  readonly watch?: Watch
  readonly #driver: PgDriver<Tx>
  readonly #bind: Bind
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.name = driver.name
    this.#driver = driver
    this.#schema = schema
    this.#bind = statements(schema, driver.parameters)
    this.features = {
      transactional: true,
      // Only PGlite has a single connection.
      concurrentClaims: !driver.single,
      serverDeadline: !driver.single,
    }
    this.retention = new PostgresRetention(driver, schema)
    this.schema = new PostgresSchema(driver, schema, this.retention)
    this.leases = new PostgresLeases(driver, this.#bind, schema)
    this.locks = lockBudget(driver, schema)
    this.batches = new PostgresBatches(driver, this.#bind, schema, this.locks)
    this.outbox = new PostgresOutbox(driver, this.#bind, schema)
    this.inbox = new PostgresInbox(driver, this.#bind, schema)
    this.redrives = new PostgresRedrives(driver, schema)
    this.erasure = new PostgresErasure(driver, schema)
    this.streams = new PostgresStreams(driver, this.#bind, schema)
    this.namespaces = new PostgresNamespaces(driver, schema)
    if (driver.watch) this.watch = driver.watch
  }

  /** Every operation runs through here, so it creates as few promises as possible. */
  begin({ claim, deadlineMs }: BeginParams): Promise<SqlBegun<Tx>> {
    const first = this.#bind('claim', claimValues(claim, deadlineMs + SERVER_DEADLINE_SLACK_MS))
    return this.#driver.begin(first, { withinMs: deadlineMs + ANSWER_SLACK_MS }).then(
      ({ connection, rows }) => {
        let shown
        try {
          shown = shownBy(rows[0], claim)
        } catch (error) {
          // Release the connection even if the row cannot be read.
          void connection.rollback()
          throw error
        }
        const session = new PostgresSession(connection, this.#bind, this.#schema, shown)
        return { view: shown.view, claimed: shown.claimed, session }
      },
      (error: unknown) => {
        throw storeError(error, this.#schema)
      },
    )
  }

  open({ deadlineMs }: { readonly deadlineMs: number }): Promise<SqlSession<Tx>> {
    return told(this.#schema, async () => {
      // The process's own timer must fire first, because the server would end the connection too.
      const deadline = this.#bind('deadline', [String(deadlineMs + SERVER_DEADLINE_SLACK_MS)])
      const { connection, rows } = await this.#driver.begin(deadline, { withinMs: deadlineMs + ANSWER_SLACK_MS })
      if (rows[0]?.['read_only'] === true) {
        await connection.rollback()
        throw readOnlyDatabase()
      }
      return new PostgresSession(connection, this.#bind, this.#schema, undefined, String(rows[0]?.['xid']))
    })
  }

  read({ id }: { readonly id: string }): Promise<Reading> {
    return told(this.#schema, async () => {
      const record = recordOf((await this.#driver.query(this.#bind('readRecord', [id])))[0])
      if (record?.state !== 'completed') return { record, answer: null }
      const [row] = await this.#driver.query(this.#bind('readAnswer', [id, record.answerDay, record.token]))
      return { record, answer: answerOf(row) }
    })
  }

  status(params: StatusParams): Promise<StoredStatus> {
    return postgresStatus(this.#driver, this.#schema, params)
  }

  async refuse({ claim, answer }: RefuseParams): Promise<ClaimView> {
    const values = [...claimValues(claim, 0).slice(0, -1), ...answerValues(answer)]
    const rows = await told(this.#schema, () => this.#driver.query(this.#bind('refuse', values)))
    return refusalViewOf(rows[0])
  }

  join(tx: Tx): Promise<SqlSession<Tx>> {
    return told(this.#schema, async () => {
      const session = new PostgresSession(this.#driver.join(tx), this.#bind, this.#schema)
      await session.check()
      return session
    })
  }

  isTransient(error: unknown): boolean {
    return isTransient(error)
  }

  close(): Promise<void> {
    return this.#driver.close()
  }
}
