import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startAlone, type RunningServer } from '../../scripts/servers/index.ts'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'

const RECOVERIES = 3
const events = { 'thing.made': event<{ n: number }>(({ n }) => `thing-${n % 8}`) }

describe('publishing after the database crashed', () => {
  let server: RunningServer | undefined
  let pool: pg.Pool

  beforeAll(async () => {
    const started = await startAlone('postgres')
    if ('missing' in started) throw new Error(started.missing)
    server = started
    pool = new pg.Pool({ connectionString: started.url, max: 6 })
    pool.on('error', () => {})
  }, 120_000)
  afterAll(async () => {
    await pool?.end()
    await server?.stop()
  })

  /** A backend that is killed takes the whole server through crash recovery, as a promotion or an immediate stop does. */
  async function crash(): Promise<void> {
    const client = await pool.connect()
    client.on('error', () => {})
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    process.kill(rows[0]!.pid, 'SIGKILL')
    client.release(true)
    for (let i = 0; i < 200; i++) {
      const up = await pool.query('select 1').then(
        () => true,
        () => false,
      )
      if (up) return
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    throw new Error('the database did not come back')
  }

  it('goes on in the segment it was in, sends everything once and in order', { timeout: 120_000 }, async () => {
    const store = pgStore(pool)
    const once = effectivelyOnce({ namespace: 'crash', store, events, guard: 'off', sweep: false })
    await once.migrate()
    const sent: number[] = []
    const relay = once.relay({ to: inProcessSink((made) => void sent.push((made.data as { n: number }).n)) })
    let n = 0
    for (let round = 0; round < RECOVERIES; round++) {
      const told: string[] = []
      for (let i = 0; i < 20; i++) {
        const key = String(++n)
        const made = n
        told.push(
          await once
            .run({ scope: 'u', key, input: 1 }, async ({ publish }) => void (await publish('thing.made', { n: made })))
            .then(
              () => 'done',
              (error: Error) => error.message,
            ),
        )
      }
      expect(told.filter((word) => word !== 'done')).toEqual([])
      await relay.drain()
      // Recovery starts from here, so it reads again how the next segment began.
      await pool.query('checkpoint')
      for (let i = 0; i < 6; i++) await store.retention.sweep({ limit: 1_000, replayForMs: 60_000, resendForMs: 70 })
      await crash()
    }
    await relay.drain()
    expect(sent.toSorted((a, b) => a - b)).toEqual(Array.from({ length: n }, (_, i) => i + 1))
    await once.close()
  })
})
