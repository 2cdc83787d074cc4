import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'
import { numbered, service, type Service } from './services.ts'

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type Open = () => Promise<{ stores: [SqlStore<any>, SqlStore<any>]; end(): Promise<void> }>

/** Two services with the same names for everything, each with a store of its own on one database. */
function suite(open: Open): void {
  let shop: Service
  let billing: Service
  let end: () => Promise<void>
  beforeEach(async () => {
    const opened = await open()
    end = opened.end
    shop = service('shop', opened.stores[0])
    billing = service('billing', opened.stores[1])
    await shop.once.migrate()
  })
  afterEach(async () => {
    await Promise.all([shop.close(), billing.close()])
    await end()
  })

  /** A consumer 'emails' of each; what they applied. */
  async function consume(fails: (name: string, n: number) => boolean = () => false): Promise<Map<string, string[]>> {
    const applied = new Map<string, string[]>()
    for (const { name, once } of [billing, shop]) {
      const rows: string[] = []
      applied.set(name, rows)
      const consumer = once.consumer(
        'emails',
        { from: once.outbox, attempts: 1 },
        {
          'note.made': async ({ source, data }) => {
            if (fails(name, data.n)) throw new Error(`${name} says no`)
            rows.push(`${source} ${data.n}`)
          },
        },
      )
      await consumer.drain()
      await consumer.stop()
    }
    return applied
  }

  it('each relay sends its own events, and the first one to look leaves the others theirs', async () => {
    await shop.publish(10)
    await billing.publish(7)
    expect(await billing.sent()).toEqual(numbered('billing', 1, 7))
    expect(await shop.sent()).toEqual(numbered('shop', 1, 10))
    await shop.publish(1)
    await billing.publish(1)
    expect(await shop.sent()).toEqual(['shop 11'])
    expect(await billing.sent()).toEqual(['billing 8'])
    // A slow machine may send ten events in two calls.
    const sent = shop.signals.filter((signal) => signal.kind === 'sent')
    expect(new Set(sent.map(({ destination }) => destination))).toEqual(new Set(['hook']))
    expect(sent.reduce((sum, { events }) => sum + events, 0)).toBe(11)
  })

  it('each consumer applies its own events, once', async () => {
    await shop.publish(10)
    await billing.publish(7)
    const applied = await consume()
    expect(applied.get('shop')).toEqual(numbered('shop', 1, 10))
    expect(applied.get('billing')).toEqual(numbered('billing', 1, 7))
    expect([...(await consume()).values()]).toEqual([[], []])
  })

  it('ordered events of equal aggregates are two chains', async () => {
    for (let i = 0; i < 3; i++) {
      await shop.publish(1, 'link.made')
      await billing.publish(1, 'link.made')
    }
    for (const { once, name } of [shop, billing]) {
      const chain: [string, string | undefined][] = []
      const consumer = once.consumer(
        'links',
        { from: once.outbox },
        {
          'link.made': async (event) => void chain.push([event.id, event.headers['previous']]),
        },
      )
      await consumer.drain()
      expect(chain.map(([, previous]) => previous)).toEqual([undefined, chain[0]?.[0], chain[1]?.[0]])
      expect([name, chain.length]).toEqual([name, 3])
    }
  })

  it('dead letters and redrives are apart, under the names the program gave them', async () => {
    await shop.publish(3)
    await billing.publish(2)
    await consume(() => true)
    const { total, groups } = await shop.once.deadLetters.count()
    expect([total, ...new Set(groups.map(({ consumer }) => consumer))]).toEqual([3, 'emails'])
    const letters = await billing.once.deadLetters.list()
    expect(letters.map(({ consumer, source }) => [consumer, source])).toEqual([
      ['emails', 'billing'],
      ['emails', 'billing'],
    ])
    expect(await shop.once.deadLetters.get(letters[0]?.id ?? '')).toBeNull()
    expect(await billing.once.redrive.plan({})).toMatchObject({ consumer: 'emails', matching: 2, refusals: [] })
    const by = { by: 'anna', why: 'mended' }
    const run = await billing.once.redrive.run({ consumer: 'emails' }, by)
    expect(run).toMatchObject({ consumer: 'emails', letters: 2 })
    expect(await shop.once.redrive.status(run.id)).toBeNull()
    expect(await shop.once.redrive.list()).toEqual([])
    await expect(shop.once.redrive.pause(run.id, by)).rejects.toMatchObject({ code: 'ONCE_REDRIVE_UNKNOWN' })
    const applied = await consume()
    expect(applied.get('billing')).toEqual(['billing 1', 'billing 2'])
    expect(applied.get('shop')).toEqual([])
    expect(await shop.once.deadLetters.count()).toMatchObject({ total: 3 })
    expect(await billing.once.deadLetters.count()).toMatchObject({ total: 0 })
    expect(await shop.once.redrive.audit()).toEqual([])
    expect((await billing.once.redrive.audit()).map(({ action }) => action)).toContain('run')
    expect(await billing.once.deadLetters.discard({}, by)).toBe(0)
    expect(await shop.once.deadLetters.discard({ consumer: 'emails' }, by)).toBe(3)
    expect((await shop.once.redrive.audit()).map(({ action }) => action)).toEqual(['discard'])
    expect(shop.signals.filter(({ kind }) => kind === 'deadLetter')).toMatchObject([{ consumer: 'emails' }, {}, {}])
  })

  it('letters are exported and imported by the service they belong to', async () => {
    await shop.publish(1)
    await billing.publish(1)
    await consume(() => true)
    for (const { once } of [shop, billing]) {
      const lines: string[] = []
      for await (const line of once.deadLetters.export()) lines.push(line)
      expect(lines.map((line) => (JSON.parse(line) as { consumer: string }).consumer)).toEqual(['emails'])
      const again = await once.deadLetters.import(lines, { by: 'anna', why: 'again' })
      expect(again).toEqual({ lines: 1, imported: 0, applied: 0, known: 1, busy: [] })
    }
  })

  it('resends and destinations are apart', async () => {
    const since = new Date(0)
    await shop.publish(3)
    await billing.publish(2)
    await shop.sent()
    await expect(billing.once.resend({ since, destination: 'hook' })).rejects.toThrow('no relay has ever sent')
    await billing.sent()
    expect(await billing.once.resend({ since })).toBe(2)
    expect(await billing.sent()).toEqual(['billing 1', 'billing 2'])
    expect(await shop.sent()).toEqual([])
    await billing.once.forget({ destination: 'hook' })
    expect(await shop.once.resend({ since, destination: 'hook' })).toBe(3)
    expect(await billing.sent()).toEqual(['billing 1', 'billing 2'])
  })

  it('who only looks gets no number, and makes nobody one of several', async () => {
    await shop.publish(1)
    expect(await billing.once.deadLetters.list()).toEqual([])
    expect(await billing.once.redrive.list()).toEqual([])
    expect(await shop.once.deadLetters.count()).toMatchObject({ total: 0 })
    const { namespaces } = (shop.once as unknown as { core: { store: SqlStore<unknown> } }).core.store
    expect(await namespaces?.list()).toEqual([{ no: 0, name: 'shop' }])
  })
}

describePostgres('two services on one PostgreSQL', () => {
  suite(async () => {
    const database = await freshDatabase()
    const pools = [0, 1].map(() => new pg.Pool({ connectionString: database.url, max: 6 })) as [pg.Pool, pg.Pool]
    for (const pool of pools) pool.on('error', () => {})
    return {
      stores: [pgStore(pools[0]), pgStore(pools[1])],
      async end() {
        await Promise.all(pools.map((pool) => pool.end()))
        await database.drop()
      },
    }
  })
})

describeSqlite('two services on one SQLite file', (lab) => {
  suite(async () => {
    const file = lab.file()
    return { stores: [lab.bare({ file }), lab.bare({ file })], end: async () => {} }
  })
})

describe('two services on one database in memory', () => {
  suite(async () => {
    const first = memoryStore()
    return { stores: [first, memoryStore({ database: first.database })], end: async () => {} }
  })
})
