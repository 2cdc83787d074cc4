import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import { claimOf } from '../../testing/contract/make.ts'
import { pgStore } from './pg.ts'

describePostgres('a batch on PostgreSQL', (database) => {
  let pool: pg.Pool

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 2 })
    pool.on('error', () => {})
    await pgStore(pool).schema.migrate()
  })
  afterAll(() => pool.end())

  it('says that it was ended because it took too long, where the server ended only its statement', async () => {
    const { session } = await pgStore(pool).batches.open({ claims: [claimOf('k')], deadlineMs: 20_000, rerun: false })
    const statements = [`set local statement_timeout = '50ms'`, 'select pg_sleep(5)']
    expect(await session.effects(statements.map((sql) => ({ sql, values: [] })))).toMatchObject({
      kind: 'ended',
      index: 1,
      late: true,
      error: { code: 'ONCE_DEADLINE' },
    })
    await session.rollback()
  })
})
