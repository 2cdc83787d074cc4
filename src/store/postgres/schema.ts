import { onceError } from '../../errors.ts'
import type { Row, Schema } from '../store.ts'
import type { PgConnection, PgDriver } from './driver.ts'
import { storeError } from './errors.ts'
import { MIGRATIONS, SCHEMA_VERSION } from './migrations.ts'
import type { PostgresRetention } from './retention.ts'
import { sqlStateOf } from './sqlstate.ts'

/** Numbered, append-only migrations, applied by one process at a time under an advisory lock. */
export class PostgresSchema<Tx> implements Schema {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string
  readonly #retention: PostgresRetention<Tx>

  constructor(driver: PgDriver<Tx>, schema: string, retention: PostgresRetention<Tx>) {
    this.#driver = driver
    this.#schema = schema
    this.#retention = retention
  }

  async migrate(): Promise<{ from: number; to: number }> {
    try {
      const from = await this.#apply()
      await this.#retention.ensurePartitions(3)
      return { from, to: SCHEMA_VERSION }
    } catch (error) {
      throw storeError(error, this.#schema)
    }
  }

  sql(): string {
    const lines = MIGRATIONS.flatMap((migration) => [
      `-- ${migration.version}: ${migration.name}`,
      ...migration.statements(this.#schema).map((statement) => `${statement};`),
      `insert into ${this.#schema}.version (version) values (${migration.version});`,
    ])
    return ['begin;', ...preamble(this.#schema).map((statement) => `${statement};`), ...lines, 'commit;', ''].join('\n')
  }

  async version(): Promise<number> {
    try {
      return versionOf(await this.#driver.query({ name: '', text: versionSql(this.#schema), values: [] }))
    } catch (error) {
      const state = sqlStateOf(error)
      if (state === '42P01' || state === '3F000') return 0
      throw storeError(error, this.#schema)
    }
  }

  /** Everything in one transaction: ten processes may start at once, nine wait and find it done. */
  async #apply(): Promise<number> {
    const { connection } = await this.#driver.begin({ name: '', text: MIGRATION_LOCK_SQL, values: [this.#schema] })
    try {
      for (const statement of preamble(this.#schema)) await run(connection, statement)
      const from = versionOf(await connection.query({ name: '', text: versionSql(this.#schema), values: [] }))
      if (from > SCHEMA_VERSION) {
        throw onceError('ONCE_SCHEMA_NEWER', {
          detail: `Schema ${this.#schema} is at version ${from}, this code knows ${SCHEMA_VERSION}. Upgrade effectively-once`,
        })
      }
      for (const migration of MIGRATIONS.slice(from)) {
        for (const statement of migration.statements(this.#schema)) await run(connection, statement)
        await connection.query({
          name: '',
          text: `insert into ${this.#schema}.version (version) values ($1::int4)`,
          values: [migration.version],
        })
      }
      if ((await connection.commit()) !== 'committed') throw onceError('ONCE_ROLLED_BACK')
      return from
    } catch (error) {
      await connection.rollback()
      throw error
    }
  }
}

/** One key for all processes that migrate the same schema. $1 schema */
const MIGRATION_LOCK_SQL = `select pg_advisory_xact_lock(hashtextextended('effectively-once:' || $1::text, 0))::text as locked`

function preamble(schema: string): string[] {
  return [
    `create schema if not exists ${schema}`,
    `create table if not exists ${schema}.version (version int4 primary key, applied_at timestamptz not null default clock_timestamp())`,
  ]
}

function versionSql(schema: string): string {
  return `select coalesce(max(version), 0)::int4 as version from ${schema}.version`
}

function versionOf(rows: readonly Row[]): number {
  return Number(rows[0]?.['version'] ?? 0)
}

async function run<Tx>(connection: PgConnection<Tx>, text: string): Promise<void> {
  await connection.query({ name: '', text, values: [] })
}
