import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { driverContract, storeWorks } from '../support/driver-contract.ts'
import { lateServer } from '../support/late-servers.ts'
import { pgContract } from '../support/pg-contract.ts'
import { postgresJsBench } from '../support/postgres-js-bench.ts'
import { describePostgres, type Database } from '../support/postgres.ts'
import { serverDeadline } from '../support/server-deadline.ts'

/** Before version 17 two limits stand for one deadline. */
const server = await lateServer('oldPostgres')

/** Each has a database of its own: the limits of one are no other's. */
const PARTS: Readonly<Record<string, (database: Database) => void>> = {
  'it is one'(database) {
    it('by its own word', async () => {
      const client = new pg.Client({ connectionString: database.url })
      await client.connect()
      const { rows } = await client.query(`select current_setting('server_version_num')::int4 as version`)
      await client.end()
      expect(rows[0].version).toBeLessThan(170_000)
    })
  },
  'the contract of a store': pgContract,
  "the server's deadline beside limits of the database's owner": serverDeadline,
  'postgres.js'(database) {
    driverContract(() => postgresJsBench(database.url), { server: true, joinHeals: false })
    storeWorks(() => postgresJsBench(database.url))
  },
}

describe('a PostgreSQL before version 17', () => {
  for (const [name, define] of Object.entries(PARTS)) describePostgres(name, define, server)
})
