import { expect, it } from 'vitest'
import { inProcessSink } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'
import { until, type Step } from './world.ts'

const LIMIT = 5
const HOUR_MS = 3_600_000

describePostgres('the rows of delayed events', () => {
  const here = freshWorld()

  // Each time another process, which knows nothing of the last one: as a timer runs the command line.
  const sweep = (resendForMs = 1): Promise<unknown> =>
    pgStore(here.world.pool).retention.sweep({ limit: LIMIT, replayForMs: 60_000, resendForMs })
  const rows = async (): Promise<number> =>
    Number((await here.world.pool.query('select count(*) from effectively_once.delayed')).rows[0].count)
  const publish = (n: number, notBefore: Date): Promise<string> =>
    here.world.once.run({ scope: 's', key: `k${n}`, input: n }, (op) =>
      op.publish('step.made', { aggregate: `a${n % 7}`, n }, { notBefore }),
    )

  it('go with their events, also where many others wait longer, and those stay cancelled', async () => {
    const sent: number[] = []
    const to = inProcessSink(({ data }) => void sent.push((data as Step).n), { name: 'one' })
    const later = new Date(Date.now() + HOUR_MS)
    const waiting: string[] = []
    for (let n = 0; n < 40; n++) waiting.push(await publish(n, later))
    for (let n = 100; n < 112; n++) await publish(n, new Date(Date.now() + 50))
    for (const id of waiting.slice(0, 3)) expect(await here.world.once.cancel(id)).toBe('cancelled')
    const relay = await here.world.once.relay({ to }).start()
    await until(() => sent.length === 12, 20_000)
    await relay.stop()
    expect(await rows()).toBe(52)
    for (let i = 0; i < 12; i++) await sweep(HOUR_MS)
    expect(await rows()).toBe(52)
    for (let i = 0; i < 12; i++) await sweep()
    expect(await rows()).toBe(40)
    for (const id of waiting.slice(0, 3)) expect(await here.world.once.cancel(id)).toBe('cancelled')
    // Their time comes, when their segment is long gone.
    await here.world.pool.query('update effectively_once.held set due_at = now()')
    const again = await here.world.once.relay({ to }).start()
    await until(() => sent.length === 12 + 37, 20_000)
    await again.stop()
    // Nobody waits for a transaction that came too late with its question.
    const client = await here.world.pool.connect()
    await client.query('begin')
    expect(await here.world.once.join(client).cancel(waiting[5] ?? '')).toBe('due')
    await sweep()
    await client.query('commit')
    client.release()
    for (let i = 0; i < 12; i++) await sweep()
    expect(await rows()).toBe(0)
    expect(sent.filter((n) => n < 3)).toEqual([])
  }, 90_000)

  it('stay where they are another service’s, whose event has the same id', async () => {
    const { pool, once } = here.world
    const id = await publish(0, new Date(Date.now() + HOUR_MS))
    const sent: string[] = []
    const relay = await once.relay({ to: inProcessSink(({ id: of }) => void sent.push(of), { name: 'one' }) }).start()
    const held = async (): Promise<number> =>
      Number((await pool.query('select count(*) from effectively_once.held')).rows[0].count)
    for (let n = 1; n < 30; n++) await publish(n, new Date(Date.now() + 50))
    await until(() => sent.length === 29, 20_000)
    await relay.stop()
    for (let i = 0; i < 12; i++) await sweep()
    expect([await rows(), await held()]).toEqual([1, 1])
    // The other service's event waits still.
    for (const table of ['event_0', 'held', 'delayed'])
      await pool.query(`insert into effectively_once.${table}
        select (jsonb_populate_record(x, jsonb_build_object('shard', x.shard + 64))).* from effectively_once.${table} x`)
    await pool.query('delete from effectively_once.held where shard < 64')
    await sweep()
    const left = await pool.query('select id, shard >= 64 as "isTheirs" from effectively_once.delayed')
    expect(left.rows).toEqual([{ id, isTheirs: true }])
  }, 90_000)
})
