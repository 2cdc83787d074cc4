import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import { SHARDS } from '../../limits.ts'
import { arrayLiteral } from './array-literal.ts'
import { pgStore } from './pg.ts'
import { fenceShardsSql } from './sql/outbox.ts'

describePostgres('the outbox on PostgreSQL', (database) => {
  let pool: pg.Pool

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 4 })
    pool.on('error', () => undefined)
    await pgStore(pool).schema.migrate()
  })

  afterAll(() => pool.end())

  test('a relay that stops while it settles is ended: its shards can be taken over', async () => {
    const { outbox } = pgStore(pool)
    const destination = 'sink'
    await outbox?.open({ destination })
    const lease = { destination, relay: '00000000-0000-4000-8000-000000000001', leaseMs: 1, limit: SHARDS }
    const leased = (await outbox?.lease(lease)) ?? []
    const stopped = new pg.Client({ connectionString: database.url })
    stopped.on('error', () => undefined)
    await stopped.connect()
    await stopped.query('begin')
    const tokens = arrayLiteral(leased.map(({ token }) => token))
    const shards = arrayLiteral(leased.map(({ shard }) => shard))
    const fenced = await stopped.query(fenceShardsSql('effectively_once'), [destination, shards, tokens, '300'])
    expect(fenced.rows).toHaveLength(SHARDS)
    expect(await outbox?.lease(lease)).toEqual([])
    await new Promise((resolve) => setTimeout(resolve, 900))
    expect(await outbox?.lease(lease)).toHaveLength(SHARDS)
    await expect(stopped.query('commit')).rejects.toThrow()
    await stopped.end().catch(() => undefined)
  })
})
