import { afterEach, describe, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink, type Once } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { describeClient, describeEmbedded, type Place } from '../support/stores.ts'
import { wait } from './service.ts'
import { until } from './world.ts'

const events = {
  'mail.wanted': event<{ id: string }>(({ id }) => id),
  'bill.made': event<{ id: string }>(({ id }) => id, { ordered: true }),
}
const SOON_MS = 4_000
const HOUR_MS = 3_600_000
// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type Shop = Once<any, typeof events>

interface Open {
  once(namespace?: string, catalogue?: Partial<typeof events>): Shop
  // oxlint-disable-next-line no-explicit-any -- as above
  own<R>(work: (tx: any) => Promise<R>): Promise<R>
  /** Others can write while a transaction is open. */
  readonly manyWriters: boolean
}

let keys = 0
const later = (ms: number): Date => new Date(Date.now() + ms)

function publish(once: Shop, id: string, ms: number, type: keyof typeof events = 'mail.wanted'): Promise<string> {
  const options = ms === 0 ? {} : { notBefore: later(ms) }
  return once.run({ scope: 's', key: `${process.pid}-${keys++}`, input: null }, (op) =>
    op.publish(type, { id }, options),
  )
}

function suite(open: Open): void {
  const ends: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  /** A relay and a consumer of the outbox. */
  async function receivers(once: Shop): Promise<{ sent: string[]; applied: string[] }> {
    const [sent, applied]: string[][] = [[], []]
    const relay = once.relay({ to: inProcessSink(({ subject }) => void sent?.push(subject ?? '')) })
    const taste = async ({ data }: { data: { id: string } }): Promise<void> => void applied?.push(data.id)
    const handlers = { 'mail.wanted': taste, 'bill.made': taste }
    const consumer = once.consumer('mails', { from: once.outbox }, handlers as never)
    ends.push(
      () => relay.stop(),
      () => consumer.stop(),
    )
    await relay.start()
    await consumer.start()
    return { sent: sent as string[], applied: applied as string[] }
  }

  it('what was cancelled is sent to nobody, and what is due to everybody', async () => {
    const once = open.once()
    const { sent, applied } = await receivers(once)
    const [gone, ordered, kept] = [
      await publish(once, 'gone', SOON_MS),
      await publish(once, 'bill', SOON_MS, 'bill.made'),
      await publish(once, 'kept', SOON_MS),
    ]
    await publish(once, 'gone', SOON_MS + 300)
    const plain = await publish(once, 'plain', 0)
    expect(await once.cancel(gone)).toBe('cancelled')
    expect(await once.cancel(gone)).toBe('cancelled')
    expect(await once.cancel(ordered)).toBe('ordered')
    expect(await once.cancel(plain)).toBe('unknown')
    expect(await open.once('another').cancel(kept)).toBe('unknown')
    await until(() => sent.length >= 4 && applied.length >= 4, 20_000)
    expect(await once.cancel(kept)).toBe('due')
    await once.resend({ since: new Date(Date.now() - HOUR_MS) })
    await until(() => sent.length >= 8 && applied.length >= 4, 20_000)
    await wait(500)
    const all = ['bill', 'gone', 'kept', 'plain']
    expect(applied.toSorted()).toEqual(all)
    expect(sent.toSorted()).toEqual([...all, ...all].toSorted())
  }, 60_000)

  it('a destination that is new after the time is not sent it either', async () => {
    const once = open.once()
    const gone = await publish(once, 'gone', 400)
    expect(await once.cancel(gone)).toBe('cancelled')
    await publish(once, 'kept', 400)
    await wait(600)
    const { sent, applied } = await receivers(once)
    await until(() => sent.length > 0 && applied.length > 0, 20_000)
    await wait(300)
    expect([sent, applied]).toEqual([['kept'], ['kept']])
  }, 60_000)

  it('a transaction cancels what it published, and a rollback takes that back', async () => {
    const once = open.once()
    const notBefore = later(SOON_MS)
    const run = (key: string, fails: boolean): Promise<string[]> =>
      once.run({ scope: 's', key: `${process.pid}-${key}-${keys++}`, input: null }, async ({ tx, publish }) => {
        const ids = [
          await publish('mail.wanted', { id: `${key} unwritten` }, { notBefore }),
          await once.join(tx).publish('mail.wanted', { id: `${key} written` }, { notBefore }),
        ]
        // What is inside rolls back alone.
        const inner = once.run({ scope: 's', key: `${key}-inner-${keys++}`, input: null }, async () => {
          for (const id of ids) expect(await once.cancel(id)).toBe('cancelled')
          if (fails) throw new Error('not after all')
        })
        await inner.catch(() => undefined)
        return ids
      })
    const gone = await run('gone', false)
    const kept = await run('kept', true)
    for (const id of gone) expect(await once.cancel(id)).toBe('cancelled')
    const { sent, applied } = await receivers(once)
    await until(() => sent.length >= 2 && applied.length >= 2, 20_000)
    for (const id of kept) expect(await once.cancel(id)).toBe('due')
    await wait(300)
    for (const seen of [sent, applied]) expect(seen.toSorted()).toEqual(['kept unwritten', 'kept written'])
  }, 60_000)

  it("cancels with the user's own transaction, or not at all", async () => {
    const once = open.once()
    const { sent, applied } = await receivers(once)
    const [gone, kept] = [await publish(once, 'gone', SOON_MS), await publish(once, 'kept', SOON_MS)]
    await publish(once, 'beside', SOON_MS)
    await wait(500)
    const hold = open.manyWriters ? SOON_MS : 0
    const undone = open.own(async (tx) => {
      expect(await once.join(tx).cancel(kept)).toBe('cancelled')
      await wait(hold)
      throw new Error('not after all')
    })
    const done = open.own(async (tx) => {
      expect(await once.join(tx).cancel(gone)).toBe('cancelled')
      await wait(hold)
      // Whoever is about to cancel one event does not hold up the others.
      if (hold > 0) expect([sent, applied]).toEqual([['beside'], ['beside']])
    })
    await expect(undone).rejects.toThrow('not after all')
    await done
    await until(() => sent.length >= 2 && applied.length >= 2, 20_000)
    await wait(300)
    for (const seen of [sent, applied]) expect(seen.toSorted()).toEqual(['beside', 'kept'])
    expect(await once.cancel(kept)).toBe('due')
  }, 60_000)

  it('who publishes nothing itself cancels what its namespace published, and nothing else', async () => {
    const names = ['publisher', 'stranger', 'first'].map((name) => `${name} ${keys++}`) as [string, string, string]
    const [publisher, stranger] = [names[0], names[1]]
    await publish(open.once(names[2]), 'before', HOUR_MS)
    for (const how of ['alone', 'joined', 'nested'] as const) {
      const id = await publish(open.once(publisher), how, HOUR_MS)
      const cancel = async (namespace: string): Promise<unknown> => {
        const once = open.once(namespace, {})
        if (how === 'alone') return once.cancel(id)
        if (how === 'joined') return open.own((tx) => once.join(tx).cancel(id))
        return once.run({ scope: 's', key: `${process.pid}-${keys++}`, input: null }, () => once.cancel(id))
      }
      expect([how, await cancel(stranger), await cancel(publisher)]).toEqual([how, 'unknown', 'cancelled'])
    }
  })

  it('an id that is none is refused', async () => {
    const once = open.once()
    for (const id of ['', 'x', '00000000-0000-4000-8000-00000000000', null, 7, {}] as string[])
      for (const wrong of [once.cancel(id), open.own((tx) => once.join(tx).cancel(id))])
        await expect(wrong).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    expect(await once.cancel('00000000-0000-4000-8000-000000000000')).toBe('unknown')
    await once.close()
    await expect(once.cancel('00000000-0000-4000-8000-000000000000')).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
  })
}

let namespaces = 0
const MANY_WRITERS = new Set(['pg', 'Prisma'])

function onStore(place: Place, client: string): void {
  suite({
    once: (namespace = `cancel ${namespaces++}`, catalogue = events) =>
      place.once({ namespace, events: catalogue } as never) as never as Shop,
    own: (work) => place.bed.own(work),
    manyWriters: MANY_WRITERS.has(client),
  })
}

for (const client of MANY_WRITERS) describeClient('cancelling a delayed event', client, onStore)
describeEmbedded('cancelling a delayed event', onStore)

describe('cancelling a delayed event, in memory', () => {
  const store = memoryStore()
  suite({
    once: (namespace = `cancel ${namespaces++}`, catalogue = events) =>
      effectivelyOnce({ namespace, store, events: catalogue as typeof events, guard: 'off', sweep: false }),
    own: (work) => store.transaction(work),
    manyWriters: true,
  })
})
