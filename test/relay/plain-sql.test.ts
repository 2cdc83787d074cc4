import { expect, it } from 'vitest'
import { inProcessSink, type OutgoingEvent } from '../../src/index.ts'
import { shardOf } from '../../src/outbox/publisher.ts'
import { cloudEventJson } from '../../src/sink/sink.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'

describePostgres('events of plain SQL', () => {
  const here = freshWorld()

  const INSERT = `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload, headers)
    values ('step', $1::text, 'step.made', '{"n": 1}', $2::jsonb) returning id, shard, seq::int4 as seq, headers`

  it('get shard, number and id, and the row is counted and returned', async () => {
    const { rows, rowCount } = await here.world.pool.query(INSERT, ['a1', { source: 'warehouse' }])
    expect({ rowCount, row: rows[0] }).toEqual({
      rowCount: 1,
      row: { id: expect.any(String), shard: shardOf('a1'), seq: 1, headers: { source: 'warehouse' } },
    })
    const seen: OutgoingEvent[] = []
    await here.world.once.relay({ to: inProcessSink((event) => void seen.push(event)) }).drain()
    expect(seen).toMatchObject([{ id: rows[0].id, subject: 'a1', type: 'step.made', data: { n: 1 } }])
  })

  it('are sent with their headers, as those of publish are', async () => {
    const { pool, once } = here.world
    await pool.query(INSERT, ['a1', { source: 'warehouse', tenant: 'acme', 'X-Region': 'eu', count: 7 }])
    await once.run({ scope: 's', key: 'k', input: null }, ({ publish }) =>
      publish(
        'step.made',
        { aggregate: 'a2', n: 2 },
        { tenant: 'acme', partitionKey: 'p7', headers: { region: 'eu' } },
      ),
    )
    const sent: unknown[] = []
    await once.relay({ to: inProcessSink((event) => void sent.push(JSON.parse(cloudEventJson(event)))) }).drain()
    expect(sent).toHaveLength(2)
    expect(sent.find((event) => (event as OutgoingEvent).subject === 'a1')).toMatchObject({
      source: 'warehouse',
      tenant: 'acme',
      'X-Region': 'eu',
    })
    expect(sent.find((event) => (event as OutgoingEvent).subject === 'a2')).toMatchObject({
      source: 'relay',
      tenant: 'acme',
      region: 'eu',
      partitionkey: 'p7',
    })
  })

  it('are chained when they say so', async () => {
    const ids: string[] = []
    const previous: unknown[] = []
    for (let i = 0; i < 3; i++) {
      const { rows } = await here.world.pool.query(INSERT, ['a1', { previous: null }])
      ids.push(rows[0].id)
      previous.push(rows[0].headers.previous)
    }
    expect(previous).toEqual([null, ids[0], ids[1]])
  })

  it('are refused by the table itself, and lose nothing', async () => {
    await expect(here.world.pool.query(INSERT.replace('.outbox', '.event'), ['a1', {}])).rejects.toThrow('"seq"')
    expect((await here.world.pool.query('select 1 from effectively_once.event')).rowCount).toBe(0)
  })

  it('are refused in a stricter isolation when they are ordered', async () => {
    const client = await here.world.pool.connect()
    try {
      await client.query('begin isolation level repeatable read')
      await expect(client.query(INSERT, ['a1', { previous: null }])).rejects.toMatchObject({ code: 'EO003' })
    } finally {
      await client.query('rollback')
      client.release()
    }
  })

  it('wait for their turn over the end of a segment, and go on in the next one', async () => {
    const sweep = (): Promise<unknown> =>
      pgStore(here.world.pool).retention.sweep({ limit: 10_000, replayForMs: 60_000, resendForMs: 1 })
    const [first, second] = [await here.world.pool.connect(), await here.world.pool.connect()]
    try {
      // The next segment is attached.
      await here.world.pool.query(INSERT, ['other', {}])
      await sweep()
      await first.query('begin')
      await first.query(INSERT, ['a1', {}])
      const { rows: backend } = await second.query('select pg_backend_pid() as pid')
      const waiting = second.query(INSERT, ['a1', {}])
      const waits = `select 1 from pg_stat_activity where pid = $1 and wait_event = 'advisory'`
      while ((await here.world.pool.query(waits, [backend[0].pid])).rowCount === 0) await new Promise(setImmediate)
      await sweep()
      await first.query('commit')
      await waiting
      const { rows } = await here.world.pool.query(
        `select segment from effectively_once.event where aggregateid = 'a1' order by seq`,
      )
      expect(rows).toEqual([{ segment: 1 }, { segment: 2 }])
    } finally {
      first.release()
      second.release()
    }
  })
})
