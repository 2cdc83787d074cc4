import { onceError } from '../../errors.ts'
import { NAMESPACES_MAX } from '../../limits.ts'
import { sleep, systemClock } from '../../platform/clock.ts'
import type { ClaimNameParams, NamespaceRow, Namespaces } from '../namespaces.ts'
import type { Row, Session } from '../store.ts'
import type { PgDriver, PgStatement } from './driver.ts'
import { told } from './errors.ts'
import { claimNameSql, namespacesSql, registerSql } from './sql/namespace.ts'

/** Whoever registers a namespace in a transaction of its own keeps the others waiting until it ends, this long at most. */
const WAIT_MS = 20
const WAITS_MAX = 250

type Query = (statement: PgStatement) => Promise<readonly Row[]>

/** Namespaces on PostgreSQL: one statement each, none of them prepared by name. */
export class PostgresNamespaces<Tx> implements Namespaces<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  register({ name }: { readonly name: string }): Promise<number> {
    return this.#register(name, (statement) => this.#driver.query(statement))
  }

  registerInside(session: Session<Tx>, { name }: { readonly name: string }): Promise<number> {
    return this.#register(name, (statement) => this.#driver.join(session.tx).query(statement))
  }

  async list(): Promise<readonly NamespaceRow[]> {
    const rows = await this.#query(namespacesSql(this.#schema), [])
    return rows.map((row) => ({ no: Number(row['no']), name: String(row['name']) }))
  }

  async claim({ no, kind, name }: ClaimNameParams): Promise<boolean> {
    return (await this.#query(claimNameSql(this.#schema), [no, kind, name]))[0]?.['free'] === true
  }

  #register(name: string, query: Query): Promise<number> {
    const statement = { name: '', text: registerSql(this.#schema), values: [name] }
    return told(this.#schema, async () => {
      for (let waits = 0; waits < WAITS_MAX; waits++) {
        const [row] = await query(statement)
        if (row) return Number(row['no'])
        const known = await query({ name: '', text: namespacesSql(this.#schema), values: [] })
        if (known.length >= NAMESPACES_MAX) throw onceError('ONCE_NAMESPACES_FULL')
        await sleep(systemClock, WAIT_MS)
      }
      throw onceError('ONCE_CONFLICT', { detail: 'A transaction that registers another namespace does not end' })
    })
  }

  #query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return told(this.#schema, () => this.#driver.query({ name: '', text, values }))
  }
}
