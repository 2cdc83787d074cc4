import pg from 'pg'
import postgres from 'postgres'
import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event, type Signal } from '../../src/index.ts'
import { inProcessSink } from '../../src/sink/in-process.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { postgresJsStore } from '../../src/store/postgres/postgres-js.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { proxyOf, type Proxy } from '../broker/support/proxy.ts'
import { describePostgres } from '../support/postgres.ts'

const events = { 'step.made': event<{ n: number }>(({ n }) => `a${n % 7}`) }
/** Longer than any statement of every day is waited for. */
const PATIENCE_MS = 60_000

describePostgres('a connection that is dropped without a word', (database) => {
  const ends: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  /** Through a proxy, and beside it. */
  async function world(pipeline = false) {
    const proxy: Proxy = await proxyOf(database.url)
    const signals: Signal[] = []
    const make = (url: string) => {
      const pool = new pg.Pool({ connectionString: url, max: 4, pipeline })
      pool.on('error', () => {})
      const observe = (signal: Signal): void => void signals.push(signal)
      const once = effectivelyOnce({
        namespace: 'hole',
        store: pgStore(pool),
        events,
        guard: 'off',
        sweep: false,
        observe,
      })
      ends.push(async () => {
        await once.close()
        await pool.end()
      })
      return once
    }
    const [near, through] = [make(database.url), make(proxy.url)]
    // First of all: the pool would wait for the goodbye of what it has.
    ends.push(() => proxy.close())
    await near.migrate()
    const publish = (from: number, to: number): Promise<unknown> =>
      near.run({ scope: 's', key: `${Math.random()}`, input: from }, async ({ publish: send }) => {
        for (let n = from; n < to; n++) await send('step.made', { n })
      })
    const troubles = (): number => signals.filter(({ kind }) => kind === 'troubled' || kind === 'failed').length
    return { proxy, once: through, publish, troubles }
  }

  it.each([false, true])(
    'a relay and an outbox consumer tell it and go on; a pool that pipelines: %s',
    async (pipeline) => {
      const { proxy, once, publish, troubles } = await world(pipeline)
      const [sent, applied] = [new Set<number>(), new Set<number>()]
      const sink = inProcessSink(async ({ data }) => void sent.add((data as { n: number }).n), { name: `s${pipeline}` })
      const relay = await once.relay({ to: sink }).start()
      const on = { 'step.made': async ({ data }: { data: { n: number } }) => void applied.add(data.n) }
      const consumer = await once.consumer(`c${pipeline}`, { from: once.outbox, deadline: '1s' }, on).start()
      const [from, to] = pipeline ? [100, 150] : [0, 50]
      await publish(from, to - 25)
      await expect.poll(() => sent.has(from) && applied.has(from), { timeout: 10_000 }).toBe(true)
      proxy.blackHole()
      await publish(to - 25, to)
      await expect.poll(() => sent.has(to - 1) && applied.has(to - 1), { timeout: PATIENCE_MS }).toBe(true)
      expect(troubles()).toBeGreaterThan(0)
      await Promise.all([relay.stop(), consumer.stop()])
    },
    120_000,
  )

  it('a relay on a client whose connections are not ours to end', async () => {
    const { proxy, publish } = await world()
    const sql = postgres(proxy.url, { max: 10, onnotice: () => {} })
    const signals: Signal[] = []
    const observe = (signal: Signal): void => void signals.push(signal)
    const store = postgresJsStore(sql)
    const once = effectivelyOnce({ namespace: 'hole', store, events, guard: 'off', sweep: false, observe })
    ends.splice(-1, 0, async () => {
      await once.close()
      await sql.end({ timeout: 1 })
    })
    const sent = new Set<number>()
    const sink = inProcessSink(async ({ data }) => void sent.add((data as { n: number }).n), { name: 'postgres.js' })
    const relay = await once.relay({ to: sink }).start()
    await publish(200, 225)
    await expect.poll(() => sent.has(200), { timeout: 10_000 }).toBe(true)
    proxy.blackHole()
    await publish(225, 250)
    await expect.poll(() => sent.has(249), { timeout: PATIENCE_MS }).toBe(true)
    expect(signals.some(({ kind }) => kind === 'troubled')).toBe(true)
    await relay.stop()
  }, 120_000)

  it('a consumer of a broker, in the middle of its transactions', async () => {
    const { proxy, once, troubles } = await world()
    const broker = memoryBroker()
    let hole = true
    const consumer = await once
      .consumer(
        `broker ${Date.now()}`,
        { from: broker.source, deadline: '1s', batch: 4 },
        {
          'step.made': async (_, { tx }) => {
            await tx.query('select 1')
            if (hole) proxy.blackHole()
            hole = false
          },
        },
      )
      .start()
    broker.publish(...Array.from({ length: 60 }, (_, n) => ({ id: `m${n}`, aggregate: `a${n % 3}`, data: { n } })))
    await expect.poll(() => broker.left, { timeout: PATIENCE_MS }).toBe(0)
    expect(troubles()).toBeGreaterThan(0)
    await consumer.stop()
  }, 120_000)
})
