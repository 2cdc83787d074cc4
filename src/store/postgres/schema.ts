import { onceError, type OnceError } from '../../errors.ts'
import { adoptedElsewhere } from '../namespaced/adopted.ts'
import type { MigrateParams, Row, Schema } from '../store.ts'
import type { PgConnection, PgDriver } from './driver/driver.ts'
import { storeError } from './errors.ts'
import { MIGRATIONS, SCHEMA_VERSION } from './migrations.ts'
import type { PostgresRetention } from './retention.ts'
import { ADOPT_SETTING_SQL, adoptSql, namespacesLockSql } from './sql/namespace.ts'
import { sqlStateOf } from './driver/sqlstate.ts'

/** Numbered, append-only migrations, applied by one process at a time under an advisory lock. */
export class PostgresSchema<Tx> implements Schema {
  readonly latest: number = SCHEMA_VERSION
  readonly #driver: PgDriver<Tx>
  readonly #schema: string
  readonly #retention: PostgresRetention<Tx>

  constructor(driver: PgDriver<Tx>, schema: string, retention: PostgresRetention<Tx>) {
    this.#driver = driver
    this.#schema = schema
    this.#retention = retention
  }

  async migrate({ adopt }: MigrateParams = {}): Promise<{ from: number; to: number }> {
    // If nothing is missing, a read is enough: most processes have no right to do more.
    const version = await this.version()
    this.#refuseNewer(version)
    try {
      const current = version === SCHEMA_VERSION && adopt === undefined
      const from = current ? version : await this.#applyAmidTraffic(adopt)
      // The sweeper creates what could not be created now, and reports why.
      await this.#retention.partitions.prepare().catch(() => {})
      return { from, to: SCHEMA_VERSION }
    } catch (error) {
      throw migrateError(error, this.#schema)
    }
  }

  sql({ adopt }: MigrateParams = {}): string {
    const named = adopt === undefined ? [] : [ADOPT_SETTING_SQL.replace('$1::text', `'${adopt.replaceAll("'", "''")}'`)]
    const lines = MIGRATIONS.flatMap((migration) => [
      `-- ${migration.version}: ${migration.name}`,
      ...migration.statements(this.#schema).map((statement) => `${statement};`),
      `insert into ${this.#schema}.version (version) values (${migration.version});`,
    ])
    const first = [...named, ...preamble(this.#schema)].map((statement) => `${statement};`)
    return ['begin;', ...first, ...lines, 'commit;', ''].join('\n')
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

  async writable(): Promise<boolean> {
    const text = `select current_setting('transaction_read_only') = 'off' as writable`
    const [row] = await this.#driver.query({ name: '', text, values: [] })
    return row?.['writable'] === true
  }

  #refuseNewer(version: number): void {
    if (version <= SCHEMA_VERSION) return
    throw onceError('ONCE_SCHEMA_NEWER', {
      detail: `Schema ${this.#schema} is at version ${version}, but this code knows only ${SCHEMA_VERSION}. Upgrade effectively-once`,
    })
  }

  /**
   * Operations that run meanwhile lock the same tables in another order. PostgreSQL ends either of two that wait for
   * each other. If it ends the migration, nothing is changed, and the migration begins again.
   */
  async #applyAmidTraffic(adopt: string | undefined): Promise<number> {
    for (let deadlocks = 0; ; deadlocks++) {
      try {
        return await this.#apply(adopt)
      } catch (error) {
        if (sqlStateOf(error) !== '40P01' || deadlocks === DEADLOCKS_MAX) throw error
      }
    }
  }

  /** All migrations in one transaction. If ten processes start at once, nine wait and then find it done. */
  async #apply(adopt: string | undefined): Promise<number> {
    const { connection } = await this.#driver.begin(
      { name: '', text: MIGRATION_LOCK_SQL, values: [this.#schema] },
      // No time limit, because an index on a large table takes long.
      { withinMs: Infinity },
    )
    try {
      const there = await connection.query({ name: '', text: SCHEMA_THERE_SQL, values: [this.#schema] })
      for (const statement of preamble(this.#schema, there[0]?.['there'] === true)) await run(connection, statement)
      const from = versionOf(await connection.query({ name: '', text: versionSql(this.#schema), values: [] }))
      this.#refuseNewer(from)
      if (adopt !== undefined) await connection.query({ name: '', text: ADOPT_SETTING_SQL, values: [adopt] })
      for (const migration of MIGRATIONS.slice(from)) {
        for (const statement of migration.statements(this.#schema)) await run(connection, statement)
        await connection.query({
          name: '',
          text: `insert into ${this.#schema}.version (version) values ($1::int4)`,
          values: [migration.version],
        })
      }
      if (adopt !== undefined) await this.#adopt(connection, adopt)
      if ((await connection.commit()) !== 'committed') throw onceError('ONCE_ROLLED_BACK')
      return from
    } catch (error) {
      await connection.rollback()
      throw error
    }
  }

  async #adopt(connection: PgConnection<Tx>, name: string): Promise<void> {
    await connection.query({ name: '', text: namespacesLockSql(this.#schema), values: [] })
    const [row] = await connection.query({ name: '', text: adoptSql(this.#schema), values: [name] })
    if (row?.['owner'] !== name) throw adoptedElsewhere(name, row?.['owner'])
  }
}

/** Each one takes the server's deadlock_timeout, a second by default. */
const DEADLOCKS_MAX = 20

/** One key for all processes that migrate the same schema. $1 schema */
const MIGRATION_LOCK_SQL = `select pg_advisory_xact_lock(hashtextextended('effectively-once:' || $1::text, 0))::text as locked`

/** $1 schema */
const SCHEMA_THERE_SQL = `select to_regnamespace($1::text) is not null as there`

/** A role may have the right to create tables in a schema, but not to create schemas. */
function preamble(schema: string, there = false): string[] {
  return [
    ...(there ? [] : [`create schema if not exists ${schema}`]),
    `create table if not exists ${schema}.version (version int4 primary key, applied_at timestamptz not null default clock_timestamp())`,
  ]
}

function versionSql(schema: string): string {
  return `select coalesce(max(version), 0)::int4 as version from ${schema}.version`
}

function versionOf(rows: readonly Row[]): number {
  return Number(rows[0]?.['version'] ?? 0)
}

function migrateError(error: unknown, schema: string): OnceError {
  if (sqlStateOf(error) !== '42501') return storeError(error, schema)
  const why = error instanceof Error ? error.message : String(error)
  return onceError('ONCE_RIGHTS_MISSING', {
    detail: `This role may not migrate schema ${schema}: ${why}. Let its owner run: npx effectively-once migrate`,
    cause: error,
  })
}

async function run<Tx>(connection: PgConnection<Tx>, text: string): Promise<void> {
  await connection.query({ name: '', text, values: [] })
}
