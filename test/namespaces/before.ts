import type pg from 'pg'
import { MIGRATIONS } from '../../src/store/postgres/migrations.ts'
import { MIGRATIONS as SQLITE_MIGRATIONS, VERSION_TABLE } from '../../src/store/sqlite/migrations.ts'
import type { SqliteStore } from '../../src/store/sqlite/sqlite.ts'

/** The last version without namespaces. */
export const BEFORE: number = MIGRATIONS.findIndex(({ name }) => name === 'namespaces')

/** A database as it was before namespaces. */
export async function migrateBefore(pool: pg.Pool, schema = '"effectively_once"'): Promise<void> {
  await pool.query(`create schema ${schema}`)
  await pool.query(`create table ${schema}.version (version int4 primary key, applied_at timestamptz default now())`)
  for (const { version, statements } of MIGRATIONS.slice(0, BEFORE)) {
    for (const statement of statements(schema)) await pool.query(statement)
    await pool.query(`insert into ${schema}.version (version) values ($1)`, [version])
  }
}

export async function migrateSqliteBefore(store: SqliteStore): Promise<void> {
  await store.transaction(async (tx) => {
    await tx.query(VERSION_TABLE)
    for (const { version, statements } of SQLITE_MIGRATIONS.slice(0, 6)) {
      for (const statement of statements) await tx.query(statement)
      await tx.query(`insert into effectively_once_version (version, applied_at) values (${version}, 0)`)
    }
  })
}

/** What code from before writes, as it wrote it: statements of the version that did not know namespaces. */
export function codeFromBefore(pool: pg.Pool, schema = '"effectively_once"') {
  let n = 0
  const id = (): string => `00000000-0000-8000-8000-${String(++n).padStart(12, '0')}`
  return {
    /** An event of an operation; `ordered`: through the view, as ordered ones were. */
    async publish(source: string, number: number, ordered = false): Promise<string> {
      const event = [id(), 'note', 'anna', ordered ? 'link.made' : 'note.made', { to: 'anna', n: number }]
      const headers = { source, ...(ordered ? { previous: null } : {}) }
      const shard = `(get_byte(sha256(convert_to('anna', 'UTF8')), 0) & 63)`
      const columns = 'seq, shard, id, aggregatetype, aggregateid, type, payload, headers, created_at'
      await pool.query(
        ordered
          ? `with k as materialized (select pg_advisory_xact_lock(3598, ${shard})), g as materialized (select count(*) from k)
             insert into ${schema}.outbox (${columns}) select null::bigint, ${shard}, $1, $2, $3, $4, $5, $6, clock_timestamp() from g`
          : `insert into ${schema}.event (${columns}) values (case when pg_advisory_xact_lock(3598, ${shard}) is not null
             then nextval('${schema}.event_seq') end, ${shard}, $1, $2, $3, $4, $5, $6, clock_timestamp())`,
        [...event, headers],
      )
      return String(event[0])
    },
    async open(consumer: string): Promise<void> {
      await pool.query(
        `insert into ${schema}.consumer (name, inbox_ms, remember_ms, letters_ms) values ($1, 3600000, 36000000, 3600000)
         on conflict (name) do update set seen_at = clock_timestamp()`,
        [consumer],
      )
    },
    async openDestination(destination: string): Promise<void> {
      await pool.query(
        `insert into ${schema}.shard (destination, shard) select $1::text, g from generate_series(0, 63) g on conflict do nothing`,
        [destination],
      )
    },
  }
}
