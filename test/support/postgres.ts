import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, inject } from 'vitest'

export interface FreshDatabase {
  readonly url: string
  drop(): Promise<void>
}

/** A new, empty database on the run's PostgreSQL. Drop it when done; open connections to it are ended. */
export async function freshDatabase(): Promise<FreshDatabase> {
  const server = inject('servers').postgres
  if ('missing' in server) throw new Error(`no PostgreSQL: ${server.missing}`)
  const name = `test_${randomBytes(8).toString('hex')}`
  await onServer(server.url, `create database ${name}`)
  const url = new URL(server.url)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: () => onServer(server.url, `drop database if exists ${name} with (force)`),
  }
}

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
export function describePostgres(name: string, define: (database: { readonly url: string }) => void): void {
  const server = inject('servers').postgres
  const missing = 'missing' in server
  describe.skipIf(missing)(missing ? `${name} (no PostgreSQL)` : name, () => {
    let database: FreshDatabase | undefined
    beforeAll(async () => {
      database = await freshDatabase()
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

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
