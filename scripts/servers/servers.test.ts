import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { describePostgres, freshDatabase } from '../../test/support/postgres.ts'

describePostgres('the PostgreSQL of the test run', (database) => {
  let client: pg.Client
  beforeEach(async () => {
    client = new pg.Client({ connectionString: database.url })
    await client.connect()
  })
  afterEach(() => client.end())

  it('is a server whose commits are durable', async () => {
    const show = async (setting: string) => (await client.query(`select current_setting($1) as value`, [setting])).rows
    expect(await show('fsync')).toEqual([{ value: 'on' }])
    expect(await show('synchronous_commit')).toEqual([{ value: 'on' }])
  })

  it('gives every asker an empty database of its own', async () => {
    await client.query('create table only_here (id int)')
    const other = await freshDatabase()
    const otherClient = new pg.Client({ connectionString: other.url })
    await otherClient.connect()
    const { rows } = await otherClient.query(`select to_regclass('only_here') as found`)
    expect(rows).toEqual([{ found: null }])
    await otherClient.end()
    await other.drop()
  })
})
