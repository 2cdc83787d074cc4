import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { effectivelyOnce } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { describePostgres } from '../support/postgres.ts'
import { ATOMIC_POINTS, LEASED_POINTS } from './crashing-store.ts'
import { Worker, type Reply } from './workers.ts'

/** Real processes on a real server, killed and stopped for real. What counts is what the tables say afterwards. */
describePostgres('processes that die, stop and race', (database) => {
  let pool: pg.Pool
  /** Survivors of one test serve in the next: starting a process is the slow part. */
  let workers: Worker[] = []

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 5 })
    await pool.query('create table charges (id serial primary key, key text, amount int)')
    await pool.query('create table calls (key text primary key, times int not null default 1)')
    const once = effectivelyOnce({ namespace: 'chaos', store: pgStore(pool), sweep: false })
    await once.migrate()
    await once.close()
  })
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.stop()))
    await pool?.end()
  })

  async function start(count: number): Promise<Worker[]> {
    workers = workers.filter((worker) => worker.alive)
    const missing = Math.max(0, count - workers.length)
    workers.push(...(await Promise.all(Array.from({ length: missing }, () => Worker.start(database.url)))))
    return workers.slice(0, count)
  }

  async function charges(key: string): Promise<number> {
    return Number((await pool.query('select count(*) from charges where key = $1', [key])).rows[0].count)
  }

  /** Retries as a client does, until there is an answer. */
  async function retry(worker: Worker, command: Parameters<Worker['charge']>[0]): Promise<Reply> {
    for (let tries = 0; tries < 100; tries++) {
      const reply = await worker.charge(command)
      if (reply.outcome === 'value' || reply.code === 'ONCE_MISMATCH') return reply
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    throw new Error('no answer after 100 retries')
  }

  it('200 concurrent calls with one key from 4 processes: one effect, every other answer correct', async () => {
    const four = await start(4)
    const replies = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        // every tenth caller means something else by the same key
        four[i % 4]!.charge({ key: 'storm', amount: i % 10 === 9 ? 2 : 1, holdMs: 30 }),
      ),
    )
    expect(await charges('storm')).toBe(1)
    const { rows } = await pool.query('select amount from charges where key = $1', ['storm'])
    const winner = rows[0].amount as number
    for (const [i, reply] of replies.entries()) {
      const same = (i % 10 === 9 ? 2 : 1) === winner
      if (same) expect(['value', 'ONCE_IN_FLIGHT']).toContain(reply.code ?? reply.outcome)
      // beside its own twin from another process it may be told to wait first
      else expect(['ONCE_MISMATCH', 'ONCE_IN_FLIGHT']).toContain(reply.code)
    }
    const values = replies.filter((reply) => reply.outcome === 'value').map((reply) => JSON.stringify(reply.value))
    expect(values.length).toBeGreaterThan(0)
    expect(new Set(values).size).toBe(1)
  })

  it.each(ATOMIC_POINTS)('the first holder is killed %s: retried from 3 processes, one effect', async (crashAt) => {
    const [first, ...others] = await start(4)
    const key = `atomic ${crashAt}`
    expect((await first!.charge({ key, amount: 1, crashAt })).outcome).toBe('died')
    const replies = await Promise.all(others.map((worker) => retry(worker, { key, amount: 1 })))
    expect(await charges(key)).toBe(1)
    expect(new Set(replies.map((reply) => JSON.stringify(reply.value))).size).toBe(1)
  })

  it.each(LEASED_POINTS)('a leased holder is killed %s: taken over, one effect, one call per key', async (crashAt) => {
    const [first, ...others] = await start(4)
    const key = `leased ${crashAt}`
    const died = await first!.charge({ key, amount: 1, lease: '300ms', crashAt })
    expect(died.outcome).toBe('died')
    const replies = await Promise.all(others.map((worker) => retry(worker, { key, amount: 1, lease: '300ms' })))
    expect(await charges(key)).toBe(1)
    expect(new Set(replies.map((reply) => JSON.stringify(reply.value))).size).toBe(1)
    const payment = (replies[0]!.value as { payment: string }).payment
    const { rows } = await pool.query('select count(*) from calls where key like $1', [`${payment}%`])
    // whatever was called was called under one derived key
    expect(Number(rows[0].count)).toBe(1)
  })

  it('a leased holder stopped past its lease and resumed commits nothing', async () => {
    const [holder, other] = await start(2)
    const command = { key: 'zombie', amount: 1, lease: '300ms' } as const
    const inside = holder!.inside()
    const late = holder!.charge({ ...command, holdMs: 10 })
    await inside
    holder!.signal('SIGSTOP')
    const taken = await retry(other!, command)
    expect(taken.outcome).toBe('value')
    expect(await charges('zombie')).toBe(1)
    holder!.signal('SIGCONT')
    expect((await late).code).toMatch(/ONCE_LEASE_LOST|ONCE_STORE_UNAVAILABLE|ONCE_DEADLINE/)
    expect(await charges('zombie')).toBe(1)
  })

  it('an atomic holder stopped with SIGSTOP frees its key at the deadline and commits nothing after', async () => {
    const [holder, other] = await start(2)
    const command = { key: 'stopped', amount: 1, deadline: '1s' } as const
    const inside = holder!.inside()
    const late = holder!.charge({ ...command, holdMs: 100 })
    await inside
    holder!.signal('SIGSTOP')
    const stoppedAt = performance.now()
    expect((await other!.charge(command)).code).toBe('ONCE_IN_FLIGHT')
    const taken = await retry(other!, command)
    const freedAfterMs = performance.now() - stoppedAt
    expect(taken.outcome).toBe('value')
    expect(freedAfterMs).toBeGreaterThan(500)
    expect(freedAfterMs).toBeLessThan(3_000)
    holder!.signal('SIGCONT')
    expect((await late).outcome).toBe('error')
    expect(await charges('stopped')).toBe(1)
  })

  it('50 duplicates from another process are refused at once, and an unrelated key is not slowed', async () => {
    const [holder, other] = await start(2)
    await Promise.all(Array.from({ length: 10 }, (_, i) => other!.charge({ key: `warm ${i}`, amount: 1, holdMs: 20 })))
    const inside = holder!.inside()
    const running = holder!.charge({ key: 'busy', amount: 1, holdMs: 1_500 })
    await inside
    const duplicates = Array.from({ length: 50 }, () => other!.charge({ key: 'busy', amount: 1 }))
    const unrelated = await other!.charge({ key: 'unrelated', amount: 1 })
    const refused = await Promise.all(duplicates)
    expect(new Set(refused.map((reply) => reply.code))).toEqual(new Set(['ONCE_IN_FLIGHT']))
    expect(Math.max(...refused.map((reply) => reply.tookMs!))).toBeLessThan(100)
    expect(unrelated.outcome).toBe('value')
    expect(unrelated.tookMs).toBeLessThan(100)
    expect((await running).outcome).toBe('value')
    expect(await charges('busy')).toBe(1)
  })
})
