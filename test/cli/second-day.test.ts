import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inProcessSink } from '../../src/index.ts'
import { CONSUMER, openRedriveWorld, type RedriveWorld } from '../redrive/world.ts'
import { describePostgres } from '../support/postgres.ts'
import { cli, type Ran } from './run.ts'

const TIMEOUT_MS = 240_000

describe('without a database', () => {
  it('migrate --sql prints the SQL of PostgreSQL, for a schema', { timeout: TIMEOUT_MS }, async () => {
    const given = await cli(['migrate', '--sql', '--schema', 'shop', '--url', 'postgres://127.0.0.1:1/none'])
    expect(given).toMatchObject({ code: 0, out: expect.stringContaining('"shop".record') })
    expect(await cli(['migrate', '--sql', '--schema', 'shop'])).toEqual(given)
  })

  it('help tells that resume can be detached', { timeout: TIMEOUT_MS }, async () => {
    expect((await cli(['help'])).out).toMatch(/redrive resume ID .*--detach/)
  })
})

describePostgres('an operator on PostgreSQL', (database) => {
  let world: RedriveWorld
  const run = (...args: string[]): Promise<Ran> => cli([...args, '--url', database.url])

  beforeAll(async () => {
    world = await openRedriveWorld('pg', database.url)
  }, TIMEOUT_MS)
  afterAll(() => world.close())

  it('forgets a destination that nobody sends to any more', { timeout: TIMEOUT_MS }, async () => {
    await world.store.outbox?.open({ destination: 'shop' })
    await world.sql(
      `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload) values ('a', 'a1', 't', '{}')`,
    )
    const why = ['--why', 'the shop moved', '--by', 'ada']
    expect(await run('forget', 'shop')).toMatchObject({ code: 2, err: expect.stringContaining('--why is needed') })
    expect(await run('forget', 'stop', ...why)).toMatchObject({
      code: 1,
      out: expect.stringContaining('no destination'),
    })
    expect(await run('forget', 'shop', ...why)).toMatchObject({
      code: 1,
      out: expect.stringContaining("1 event waiting for 'shop' would never be sent there"),
    })
    const relay = crypto.randomUUID()
    await world.store.outbox?.beat({ destination: 'shop', relay, leaseMs: 60_000, leases: [] })
    expect(await run('forget', 'shop', ...why, '--force')).toMatchObject({
      code: 1,
      out: expect.stringContaining('stop every relay first'),
    })
    await world.sql('delete from effectively_once.relay')
    expect(await run('forget', 'shop', ...why, '--force')).toMatchObject({ code: 0, out: "'shop' is forgotten\n" })
    expect(await world.store.outbox?.destinations()).toEqual([])
    expect((await run('redrive', 'audit')).out).toMatch(/destination forgotten .*ada .*the shop moved/)
  })

  it('is not left to watch a redrive that no process works on', { timeout: TIMEOUT_MS }, async () => {
    await world.park({ id: 'w1' })
    const { code, out, err } = await run('redrive', 'run', '--consumer', CONSUMER, '--why', 'mended')
    expect({ code, out }).toEqual({
      code: 3,
      out: expect.stringMatching(/^redrive 1 waits for a process that runs the consumer 'receipts'/),
    })
    expect(err).toContain(`no process runs the consumer '${CONSUMER}': start one`)
    expect(err.split('\n').length).toBeLessThan(6)
  })

  it(
    'sees the alarm of a sweep: an event that was passed, and that nobody counted',
    { timeout: TIMEOUT_MS },
    async () => {
      const insert = `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload) values ('a', 'a1', 't', '{}')`
      await world.sql(insert)
      await world.sql(insert)
      await world.once.relay({ to: inProcessSink(() => {}, { name: 'one' }) }).drain()
      await world.sql(`insert into effectively_once.event (seq, shard, aggregatetype, aggregateid, type, payload)
      select min(seq) - 1, min(shard), 'a', 'late', 't', '{}' from effectively_once.event`)
      const bounds = { limit: 10_000, replayForMs: 60_000, resendForMs: 1 }
      for (let i = 0; i < 8; i++) await world.store.retention?.sweep(bounds)
      await new Promise((resolve) => setTimeout(resolve, 1_100))
      const swept = await run('sweep', '--resend-for', '1s')
      const alarm =
        /^alarm: segment 1 of shard \d+ holds (\d+) events, and 'one' acknowledged (\d+)\. The segment is kept$/m
      expect(swept.out).toMatch(alarm)
      const [, stored, acknowledged] = alarm.exec(swept.out) ?? []
      expect(Number(stored)).toBe(Number(acknowledged) + 1)
      expect(swept.code).toBe(3)
      const json = await run('sweep', '--resend-for', '1s', '--json')
      expect(json).toMatchObject({ code: 3, out: expect.stringContaining('"miscounted":1') })
    },
  )
})
