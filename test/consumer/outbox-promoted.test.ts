import type pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import type { SqlStore } from '../../src/index.ts'
import type { Outbox } from '../../src/store/outbox.ts'
import type { PgTx } from '../../src/store/postgres/pg.ts'
import { describePostgres } from '../support/postgres.ts'
import { INSERT, openWorld, until, type World } from './world.ts'

type Store = SqlStore<PgTx<pg.PoolClient>>

/**
 * A server that answers until the first verdict of a consumer is written. The one that answers from then on was promoted
 * to this timeline, or started again, and `lose` is what it has not.
 */
function promotable(store: Store, timeline: string, lose: () => Promise<unknown>): Store {
  const inner: Outbox = store.outbox
  const servers = { first: { server: '1', timeline: '' }, second: { server: '2', timeline } }
  let now: keyof typeof servers = 'first'
  const isRefused = (server: string | undefined): boolean => server !== undefined && server !== servers[now].server
  const promote = async (): Promise<void> => {
    if (now === 'second') return
    now = 'second'
    await lose()
  }
  const outbox: Partial<Outbox> = {
    identity: async () => servers[now],
    async ack({ server, ...params }) {
      if (params.acks.some(({ cursor, from = 0 }) => cursor > from) && params.hold.length === 0) await promote()
      return isRefused(server) ? { ours: [], parked: [] } : inner.ack(params)
    },
    async settleHeld({ server, ...params }) {
      await promote()
      return isRefused(server) ? { ours: [], parked: [], blocked: [] } : inner.settleHeld(params)
    },
  }
  const from = <T extends object>(own: Partial<T>, rest: T): T =>
    new Proxy(rest, {
      get(target, name) {
        const found: unknown = Reflect.get(own, name) ?? Reflect.get(target, name)
        return typeof found === 'function' ? (found.bind(target) as unknown) : found
      },
    })
  return from<Store>({ outbox: from<Outbox>(outbox, inner) }, store)
}

describePostgres('the outbox as a source, and a server that lacks the last effect', (database) => {
  let world: World
  afterEach(() => world.close())

  it.each([
    { what: 'an event', delayMs: 0, timeline: '2' },
    { what: 'a delayed event', delayMs: 300, timeline: '2' },
    // It crashed, and commits were not synchronous.
    { what: 'an event, also of the same timeline,', delayMs: 0, timeline: '' },
  ])('applies $what again', async ({ what, delayMs, timeline }) => {
    let lost = 0
    const lose = async (): Promise<void> => {
      const { rowCount } = await world.pool.query('delete from applied')
      await world.pool.query('delete from effectively_once.inbox')
      lost += rowCount ?? 0
    }
    world = await openWorld(database.url, 20, (store) => promotable(store, timeline, lose))
    await world.pool.query('truncate applied, effectively_once.event, effectively_once.inbox')
    const consumer = world.once.consumer(
      `c ${what}`,
      { from: world.once.outbox },
      {
        'step.made': async ({ id, data }, { tx }) => {
          await tx.query(INSERT, [id, data.aggregate, data.n])
        },
      },
    )
    await consumer.start()
    const key = { scope: 's', key: what, input: delayMs }
    const when = delayMs > 0 ? { notBefore: new Date(Date.now() + delayMs) } : {}
    await world.once.run(key, ({ publish }) => publish('step.made', { aggregate: 'a', n: 1 }, when))
    await until(() => lost === 1)
    await until(async () => (await world.count('applied')) === 1, 5_000)
    await consumer.stop()
    expect(await world.count('applied')).toBe(1)
  })
})
