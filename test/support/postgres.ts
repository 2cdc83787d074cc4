import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import type { Server } from '../../scripts/servers/index.ts'

/** `url` can be read in hooks and tests. */
export interface Database {
  readonly url: string
}

export interface FreshDatabase {
  readonly url: string
  drop(): Promise<void>
}

/** A new, empty database on the run's PostgreSQL, or on another one. Drop it when done; open connections to it are ended. */
export async function freshDatabase(server: Server = inject('servers').postgres): Promise<FreshDatabase> {
  if ('missing' in server) throw new Error(`no PostgreSQL: ${server.missing}`)
  const name = `test_${randomBytes(8).toString('hex')}`
  await onServer(server.url, `create database ${name}`)
  const url = new URL(server.url)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: () =>
      onServer(server.url, `do $$ begin ${gone(name)} end $$`, `drop database if exists ${name} with (force)`),
  }
}

/** A pool that was ended says goodbye a moment later: whoever is thrown out before is told, and may be told too late. */
const gone = (name: string): string => `for i in 1..10 loop
  exit when not exists (select from pg_stat_activity where datname = '${name}');
  perform pg_sleep(0.02), pg_stat_clear_snapshot();
end loop;`

/**
 * A `describe` with a database of its own. Without a server its tests are reported as skipped.
 * `database.url` can be read in hooks and tests, not while the tests are being collected.
 *
 * @example
 * describePostgres('claims', (database) => {
 *   it('connects', async () => {
 *     const client = new pg.Client({ connectionString: database.url })
 *   })
 * })
 */
export function describePostgres(
  name: string,
  define: (database: Database) => void,
  server: Server = inject('servers').postgres,
): void {
  const missing = 'missing' in server
  describe.skipIf(missing)(missing ? `${name} (no PostgreSQL)` : name, () => {
    let database: FreshDatabase | undefined
    beforeAll(async () => {
      database = await freshDatabase(server)
    })
    afterAll(async () => {
      await database?.drop()
    })
    define({
      get url() {
        return database?.url ?? notYet.url
      },
    })
  })
}

const notYet = {
  get url(): string {
    throw new Error('the database exists only inside hooks and tests')
  },
}

async function onServer(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}
