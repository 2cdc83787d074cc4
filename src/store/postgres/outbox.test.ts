import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import { effectivelyOnce, event } from '../../index.ts'
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
    const fenced = await stopped.query(fenceShardsSql('effectively_once'), [destination, shards, tokens, '300', null])
    expect(fenced.rows).toHaveLength(SHARDS)
    expect(await outbox?.lease(lease)).toEqual([])
    await new Promise((resolve) => setTimeout(resolve, 900))
    expect(await outbox?.lease(lease)).toHaveLength(SHARDS)
    await expect(stopped.query('commit')).rejects.toThrow()
    await stopped.end().catch(() => undefined)
  })

  test('a heartbeat and a settlement of the same relay do not wait for each other', async () => {
    const { outbox } = pgStore(pool)
    const destination = 'beside'
    const relay = '00000000-0000-4000-8000-000000000002'
    await outbox?.open({ destination })
    const lease = { destination, relay, leaseMs: 60_000, limit: SHARDS }
    const leases = [...((await outbox?.lease(lease)) ?? [])].toReversed()
    const nothing = { sent: [], changed: [], kept: [], park: [], touched: [] }
    const until = performance.now() + 2_000
    const again = async (work: () => Promise<unknown> | undefined): Promise<void> => {
      while (performance.now() < until) await work()
    }
    const all = Promise.all([
      again(() => outbox?.beat({ destination, relay, leaseMs: 60_000, leases })),
      again(() => outbox?.settleHeld({ destination, leases, ...nothing })),
      again(() => outbox?.settleHeld({ destination, leases, ...nothing })),
    ])
    await expect(all).resolves.toHaveLength(3)
  })

  test('a read ends as soon as its payloads have so many bytes', async () => {
    const store = pgStore(pool)
    const events = { 'step.made': event<{ n: number }>(() => 'a') }
    const once = effectivelyOnce({ namespace: 'shop', store, events, guard: 'off', sweep: false })
    await once.run({ scope: 'a', key: 'k', input: 1 }, async ({ publish }) => {
      for (const n of [0, 1, 2]) await publish('step.made', { n })
    })
    const from = Array.from({ length: SHARDS }, (_, shard) => ({ shard, cursor: 0, segment: 0 }))
    const read = async (bytes: number): Promise<number> =>
      (await store.outbox.read({ destination: 'bytes', from, perShard: 10, limit: 10, bytes })).events.length
    const payload = '{"n": 0}'.length
    const limits = [1, payload, payload + 1, 2 * payload, 2 * payload + 1]
    expect(await Promise.all(limits.map(read))).toEqual([1, 1, 2, 2, 3])
  })

  test('what many aggregates wait for is not asked of all of them', async () => {
    const { outbox } = pgStore(pool)
    const destination = 'crowded'
    const relay = '00000000-0000-4000-8000-000000000003'
    await outbox?.open({ destination })
    const leases = (await outbox?.lease({ destination, relay, leaseMs: 60_000, limit: SHARDS })) ?? []
    await pool.query(
      `insert into effectively_once.held (destination, shard, seq, aggregateid, state, attempts, due_at)
       select $1, n % ${SHARDS}, n, 'a' || n, 1, 1, now() from generate_series(1, 20000) n`,
      [destination],
    )
    const touched = Array.from({ length: 64 }, (_, n) => ({ shard: (n + 1) % SHARDS, aggregateId: `a${n + 1}` }))
    let least = Infinity
    for (let i = 0; i < 8; i++) {
      const begun = performance.now()
      const settled = await outbox?.settleHeld({
        destination,
        leases,
        sent: [],
        changed: [],
        kept: [],
        park: [],
        touched,
      })
      least = Math.min(least, performance.now() - begun)
      expect(settled?.blocked).toHaveLength(64)
    }
    expect(least).toBeLessThan(60)
  })

  test('a role that may not read the control file still sees a promotion', async () => {
    const admin = await pool.connect()
    const role = `limited_${process.pid}`
    // A server that was promoted once: its name of a log file begins with the second timeline.
    await admin.query(`
      create role ${role};
      create schema promoted;
      grant usage on schema promoted to ${role};
      create function promoted.pg_walfile_name(pg_lsn) returns text language sql as $$ select '00000002000000000000000A' $$;
      revoke execute on function pg_control_system() from public`)
    const options = `-c role=${role} -c search_path=promoted,pg_catalog`
    const limited = new pg.Pool({ connectionString: database.url, max: 1, options })
    try {
      const known = await pgStore(pool).outbox?.identity?.()
      expect(known).toMatchObject({ timeline: '', database: expect.stringMatching(/^\d+-\d+$/) as string })
      const { server } = known as { server: string }
      expect(await pgStore(limited).outbox?.identity?.()).toEqual({ server, timeline: '2', database: '' })
      await admin.query('revoke execute on function promoted.pg_walfile_name(pg_lsn) from public')
      expect(await pgStore(limited).outbox?.identity?.()).toEqual({ server, timeline: '', database: '' })
    } finally {
      await limited.end()
      await admin.query(`drop owned by ${role}; drop role ${role}`)
      admin.release()
    }
  })
})
