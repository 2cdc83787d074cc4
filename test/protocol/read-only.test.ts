import pg from 'pg'
import { expect, it, vi } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce, event, type Once, type Operation } from '../../src/index.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { outcomeOf } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeClients, describeEmbedded, type Place } from '../support/stores.ts'

const READ_ONLY = 'set transaction read only'
const events = { 'note.made': event<{ to: string }>(({ to }) => to) }

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type AnyOnce = Once<any, typeof events>

const of = (key: string): { scope: string; key: string; input: number } => ({ scope: 'u', key, input: 1 })

/** Where a handler can make its transaction READ ONLY. */
const HANDLERS: Readonly<Record<string, (once: AnyOnce, place: Place) => Promise<unknown>>> = {
  run: (once, { bed }) => once.run(of('run'), ({ tx }) => bed.raw(tx, READ_ONLY)),
  'a run around another': (once, { bed }) =>
    once.run(of('around'), async ({ tx }) => {
      await bed.raw(tx, READ_ONLY)
      return once.run(of('inside'), async () => 1)
    }),
  'join(tx).run': (once, { bed }) =>
    bed.own((own) => once.join(own).run(of('joined'), ({ tx }) => bed.raw(tx, READ_ONLY))),
  commit: (once, { bed }) =>
    once.run({ ...of('commit'), lease: '5s' }, ({ commit }) => commit(({ tx }) => bed.raw(tx, READ_ONLY))),
  'step.tx': (once, { bed }) =>
    once.run({ ...of('step'), lease: '5s' }, async ({ step, commit }) => {
      await step.tx('reads', ({ tx }) => bed.raw(tx, READ_ONLY))
      return commit(() => 1)
    }),
}

function inAll(place: Place): void {
  const open = (): AnyOnce => place.once({ events }) as unknown as AnyOnce

  it('of your own carries neither a claim nor an event, and no retry is asked for', async () => {
    const joined = (work: (tx: unknown) => Promise<unknown>): Promise<string> =>
      outcomeOf(place.bed.own((tx) => place.bed.raw(tx, READ_ONLY).then(() => work(tx))))
    const once = open()
    expect(await joined((tx) => once.join(tx).run(of('own'), async () => 1))).toBe('ONCE_TX_REQUIRED')
    expect(await joined((tx) => once.join(tx).publish('note.made', { to: 'anna' }))).toBe('ONCE_TX_REQUIRED')
  })

  it.each(Object.keys(HANDLERS))('that the handler of %s made so is its own fault', async (name) => {
    expect(await outcomeOf(HANDLERS[name]!(open(), place))).toBe('ONCE_TX_TAKEN')
  })

  it.each([undefined, '5s'] as const)('that a consumer made so (lease: %s) parks its message', async (lease) => {
    const once = open()
    const broker = memoryBroker()
    broker.publish({ id: `lease ${lease}` })
    type Op = Operation<unknown, typeof events>
    const work = async ({ tx, publish }: Op): Promise<void> => {
      await place.bed.raw(tx, READ_ONLY)
      await publish('note.made', { to: 'anna' })
    }
    const options = { from: broker.source, attempts: 2, ...(lease && { lease }) }
    const consumer = once.consumer(`reader ${lease}`, options, {
      'step.made': (_event: unknown, op: Op & { commit(make: typeof work): Promise<unknown> }) =>
        lease ? op.commit(work) : work(op),
    } as never)
    await consumer.start()
    await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 10_000 })
    await consumer.stop()
    expect(broker.rejected).toEqual([`lease ${lease}`])
  })
}

describeClients('a READ ONLY transaction', inAll)
describeEmbedded('a READ ONLY transaction', inAll, 'PGlite')

describePostgres('a database that takes no writes', (database) => {
  it('is unavailable: after a failover the retry finds the new primary', async () => {
    const writing = new pg.Pool({ connectionString: database.url })
    await pgStore(writing).schema.migrate()
    const pool = new pg.Pool({ connectionString: database.url, options: '-c default_transaction_read_only=on' })
    const once = effectivelyOnce({ namespace: 'test', store: pgStore(pool), events, guard: 'off', sweep: false })
    const note = once.batched({ statement: () => ({ sql: 'select 1', values: [] }), respond: () => 1 })
    const joined = async (work: (tx: pg.PoolClient) => Promise<unknown>): Promise<unknown> => {
      const client = await pool.connect()
      await client.query('begin')
      return work(client).finally(() => client.release(true))
    }
    const told = await Promise.all(
      [
        once.run(of('run'), async () => 1),
        once.run({ ...of('leased'), lease: '5s' }, ({ commit }) => commit(() => 1)),
        note(of('batched')),
        joined((tx) => once.join(tx).run(of('joined'), async () => 1)),
        joined((tx) => once.join(tx).publish('note.made', { to: 'anna' })),
      ].map(outcomeOf),
    )
    expect(new Set(told)).toEqual(new Set(['ONCE_STORE_UNAVAILABLE']))
    expect(await once.ready()).toEqual({ ready: false, reasons: ['the database accepts no writes'] })
    await once.close()
    await Promise.all([pool.end(), writing.end()])
  })
})
