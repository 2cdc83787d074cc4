import { expect, it } from 'vitest'
import { inProcessSink } from '../../src/index.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'
import { until } from './world.ts'

const EVENTS = 5_000

describePostgres('many parked events', () => {
  const here = freshWorld()

  it('of one aggregate are released in small transactions, and sent in order', { timeout: 120_000 }, async () => {
    const { pool, once } = here.world
    await pool.query(
      `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload, headers)
       select 'step', 'a', 'step.made', jsonb_build_object('aggregate', 'a', 'n', n), '{}' from generate_series(1, $1::int4) n`,
      [EVENTS],
    )
    const seen: number[] = []
    let broken = true
    const to = inProcessSink(
      ({ data }) => {
        if (broken) throw new Error('no')
        seen.push((data as { n: number }).n)
      },
      { name: 'many' },
    )
    const relay = await once.relay({ to, attempts: 1 }).start()
    const parked = async (): Promise<number> =>
      Number((await pool.query(`select count(*)::int4 as n from effectively_once.held where state = 3`)).rows[0].n)
    await until(async () => (await parked()) === EVENTS, 60_000)
    broken = false
    const began = performance.now()
    const released = await once.parked.release({ destination: 'many', why: 'mended' })
    const tookMs = performance.now() - began
    await until(() => seen.length >= EVENTS, 60_000)
    await relay.stop()
    // The relay puts some in line by itself.
    expect(released).toBeGreaterThan(0)
    expect(seen).toEqual(Array.from({ length: EVENTS }, (_, n) => n + 1))
    expect(await parked()).toBe(0)
    expect(tookMs).toBeLessThan(20_000)
  })
})
