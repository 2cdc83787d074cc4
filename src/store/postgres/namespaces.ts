import { onceError } from '../../errors.ts'
import { NAMESPACES_MAX } from '../../limits.ts'
import { sleep, systemClock } from '../../platform/clock.ts'
import type { ClaimNameParams, NamespaceRow, Namespaces } from '../namespaces.ts'
import type { Row, Session } from '../store.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { told } from './errors.ts'
import { claimNameSql, namespacesLockSql, namespacesSql, registerSql } from './sql/namespace.ts'

/** A transaction that registers a namespace makes other new namespaces wait until it ends, at most for this long. */
const WAIT_MS = 20
const WAITS_MAX = 250

type Query = (statement: PgStatement) => Promise<readonly Row[]>

/** Namespaces on PostgreSQL: one statement per method, and none of them is a named prepared statement. */
export class PostgresNamespaces<Tx> implements Namespaces<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  register({ name }: { readonly name: string }): Promise<number> {
    const query: Query = (statement) => this.#driver.query(statement)
    return this.#register(name, query, () => sleep(systemClock, WAIT_MS))
  }

  registerInside(session: Session<Tx>, { name }: { readonly name: string }): Promise<number> {
    const query: Query = (statement) => this.#driver.join(session.tx).query(statement)
    // The database sees this wait, so it detects a deadlock of two such transactions.
    return this.#register(name, query, () => query({ name: '', text: namespacesLockSql(this.#schema), values: [] }))
  }

  async list(): Promise<readonly NamespaceRow[]> {
    return (await this.#query(namespacesSql(this.#schema), [])).map(namespaceOf)
  }

  async listInside(session: Session<Tx>): Promise<readonly NamespaceRow[]> {
    const statement = { name: '', text: namespacesSql(this.#schema), values: [] }
    return (await told(this.#schema, () => this.#driver.join(session.tx).query(statement))).map(namespaceOf)
  }

  async claim({ no, kind, name }: ClaimNameParams): Promise<boolean> {
    return (await this.#query(claimNameSql(this.#schema), [no, kind, name]))[0]?.['free'] === true
  }

  #register(name: string, query: Query, wait: () => Promise<unknown>): Promise<number> {
    const statement = { name: '', text: registerSql(this.#schema), values: [name] }
    return told(this.#schema, async () => {
      for (let waits = 0; waits < WAITS_MAX; waits++) {
        const [row] = await query(statement)
        if (row) return Number(row['no'])
        const known = await query({ name: '', text: namespacesSql(this.#schema), values: [] })
        if (known.length >= NAMESPACES_MAX) throw onceError('ONCE_NAMESPACES_FULL')
        await wait()
      }
      throw onceError('ONCE_CONFLICT', { detail: 'A transaction that registers another namespace is still open' })
    })
  }

  #query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return told(this.#schema, () => this.#driver.query({ name: '', text, values }))
  }
}

function namespaceOf(row: Row): NamespaceRow {
  return { no: Number(row['no']), name: String(row['name']) }
}
