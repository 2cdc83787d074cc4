import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { describePostgres, freshDatabase, type FreshDatabase } from '../support/postgres.ts'
import { numbered, service, type Service } from './services.ts'

const INSERT = `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload)
  values ('note', 'anna', 'note.made', '{"to": "anna", "n": 99}')`
const NAMED = `insert into effectively_once.outbox (namespace, aggregatetype, aggregateid, type, payload, headers)
  values ($1, 'note', 'anna', 'note.made', '{"to": "anna", "n": 99}', $2) returning id, shard, namespace, headers`

describePostgres('events of plain SQL where services share a database', () => {
  let database: FreshDatabase
  let pool: pg.Pool
  let shop: Service
  let billing: Service
  beforeEach(async () => {
    database = await freshDatabase()
    pool = new pg.Pool({ connectionString: database.url, max: 8 })
    pool.on('error', () => {})
    shop = service('shop', pgStore(pool))
    billing = service('billing', pgStore(pool))
    await shop.once.migrate()
  })
  afterEach(async () => {
    await Promise.all([shop.close(), billing.close()])
    await pool.end()
    await database.drop()
  })

  it('belong to the only namespace there is, or to the first one that comes', async () => {
    await pool.query(INSERT)
    await shop.publish(1)
    await pool.query(INSERT)
    expect(await shop.sent()).toEqual(['shop 99', 'shop 1', 'shop 99'])
    await billing.publish(1)
    expect(await billing.sent()).toEqual(['billing 1'])
  })

  it('must say whose they are where there are several', async () => {
    await shop.publish(1)
    await billing.publish(1)
    await expect(pool.query(INSERT)).rejects.toMatchObject({
      code: 'EO006',
      message:
        'effectively-once: several namespaces publish here (shop, billing): say in the column namespace whose event it is',
    })
    await expect(pool.query(NAMED, ['shopp', null])).rejects.toMatchObject({
      code: 'EO006',
      message: `effectively-once: there is no namespace 'shopp' here; known: shop, billing`,
    })
    const { rows } = await pool.query(NAMED, ['billing', { source: 'till' }])
    expect(rows).toMatchObject([{ namespace: 'billing', headers: { source: 'till' } }])
    await pool.query(NAMED, ['shop', null])
    expect(await billing.sent()).toEqual(['billing 1', 'till 99'])
    expect(await shop.sent()).toEqual(['shop 1', 'shop 99'])
    const { rows: seen } = await pool.query(`select namespace from effectively_once.outbox order by seq`)
    expect(seen.map(({ namespace }) => namespace)).toEqual(['shop', 'billing', 'billing', 'shop'])
  })

  it('are chained with those of their own namespace', async () => {
    await shop.publish(2, 'link.made')
    await billing.publish(1, 'link.made')
    const { rows } = await pool.query(NAMED, ['billing', { previous: null }])
    const { rows: links } = await pool.query<{ id: string; previous: string | null }>(
      `select id, headers ->> 'previous' as previous from effectively_once.event order by seq`,
    )
    expect(rows[0].headers.previous).toBe(links[2]?.id)
    expect(links.map(({ previous }) => previous)).toEqual([null, links[0]?.id, null, links[2]?.id])
  })

  it('are in the shard of the events that our own code publishes of the same aggregate', async () => {
    await shop.publish(1)
    await billing.publish(1)
    for (const name of ['shop', 'billing']) await pool.query(NAMED, [name, null])
    const { rows } = await pool.query<{ shard: number }>('select shard from effectively_once.event order by seq')
    const [a, b, c, d] = rows.map(({ shard }) => shard)
    expect([a, b]).toEqual([c, d])
    expect((b ?? 0) - (a ?? 0)).toBe(64)
  })

  it('of a namespace that was sent nowhere keep their segment, and those of the others with it', async () => {
    const sweep = (): Promise<unknown> =>
      pgStore(pool).retention.sweep({ limit: 10_000, replayForMs: 60_000, resendForMs: 1 })
    const segments = async (): Promise<number> =>
      (await pool.query(`select 1 from effectively_once.event where segment > 0`)).rowCount ?? 0
    await shop.publish(3)
    await billing.publish(2)
    expect(await shop.sent()).toEqual(numbered('shop', 1, 3))
    for (let i = 0; i < 8; i++) await sweep()
    expect(await segments()).toBe(5)
    expect(await billing.sent()).toEqual(numbered('billing', 1, 2))
    for (let i = 0; i < 8; i++) await sweep()
    expect(await segments()).toBe(0)
    await billing.publish(1, 'link.made')
    await shop.publish(1, 'link.made')
    await shop.once.forget({ destination: 'hook' })
    expect(await billing.sent()).toEqual(['billing 3'])
    for (let i = 0; i < 8; i++) await sweep()
    expect(await segments()).toBe(2)
    expect(await shop.sent()).toEqual(['shop 4'])
  })
})
