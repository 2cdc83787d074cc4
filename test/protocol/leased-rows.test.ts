import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { RowInbox } from '../../src/store/leased/inbox.ts'
import { changing } from '../../src/store/leased/rows.ts'
import { sweepLetters } from '../../src/store/leased/sweep.ts'
import { itemOf, letterOf } from '../../src/testing/contract/inbox-make.ts'
import { memoryRows, RowStore } from '../support/row-store.ts'
import type { RedriveHeld } from '../../src/store/redrives.ts'

const CONSUMER = 'receipts'
const TIMES = { consumer: CONSUMER, inboxForMs: 1e9, rememberForMs: 1e9, lettersForMs: 60_000 }

let store: RowStore
let inbox: RowInbox
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  store = new RowStore()
  await store.namespaces?.register({ name: 'shop' })
  inbox = store.inbox as RowInbox
  await inbox.open(TIMES)
})
afterEach(() => void vi.useRealTimers())

const later = (ms: number): void => void vi.setSystemTime(Date.now() + ms)
const park = (...messages: string[]): Promise<readonly string[]> =>
  inbox.park({
    consumer: CONSUMER,
    letters: messages.map((message) => letterOf(itemOf(CONSUMER, message, { aggregate: 'a' }))),
    positions: null,
    deadlineMs: 1_000,
  })
const parked = async (): Promise<string[]> =>
  (await inbox.letters.list({ filter: { states: ['parked'] }, limit: 100 })).map(({ message }) => message)

it('a change is computed again if another process was quicker, and nothing is lost', async () => {
  const rows = memoryRows()
  const add = (): Promise<void> =>
    changing(rows, 'g', async (draft) => {
      const before = (await draft.get<number>('n')) ?? 0
      await new Promise((resolve) => setImmediate(resolve))
      draft.put('n', before + 1)
    })
  await Promise.all(Array.from({ length: 20 }, add))
  expect(rows.groups.get('g')?.get('n')).toBe('20')
})

it('whoever held a message for too long writes no letter: another process may run it by now', async () => {
  const { claim } = store.leases
  store.leases.claim = async (params) => {
    const claimed = await claim(params)
    later(16_000)
    return claimed
  }
  await expect(park('one')).rejects.toMatchObject({ code: 'ONCE_CONFLICT' })
  expect(await parked()).toEqual([])
  store.leases.claim = claim
  expect([await park('one'), await parked()]).toEqual([[], ['one']])
})

it('a message that runs elsewhere is not parked, nor are later ones of its aggregate', async () => {
  const held: (() => Promise<void>)[] = []
  const records = await inbox.records(CONSUMER)
  const { id } = itemOf(CONSUMER, 'two')
  const hold = await records.hold(id)
  if (hold.kind === 'held') held.push(hold.release)
  expect(await park('one', 'two', 'three')).toEqual([id, itemOf(CONSUMER, 'three').id])
  expect(await parked()).toEqual(['one'])
  await held[0]?.()
  expect([await park('two', 'three'), await parked()]).toEqual([[], ['one', 'two', 'three']])
})

it('settled letters go after their time, unless parked ones of the aggregate need them', async () => {
  await park('one', 'two', 'three')
  const ids = [itemOf(CONSUMER, 'one').id, itemOf(CONSUMER, 'two').id]
  expect(await inbox.letters.discard({ filter: { ids }, limit: 10 })).toBe(2)
  later(120_000)
  const swept = async (): Promise<number> => {
    await sweepLetters(store.rows, CONSUMER)
    return (await inbox.letters.list({ filter: {}, limit: 10 })).length
  }
  expect(await swept()).toBe(3)
  expect(await inbox.letters.discard({ filter: {}, limit: 10 })).toBe(1)
  expect(await swept()).toBe(1)
  later(120_000)
  expect(await swept()).toBe(0)
  // The aggregate is free again, and a new letter gets a new number.
  expect([await park('four'), await parked()]).toEqual([[], ['four']])
})

const REDRIVE = { canary: 0, canaryStops: false, rate: 50, pauseAt: 1, prepare: false, force: false, reorder: false }

/** Parks letters of aggregates 0, 1, 2 and so on, and returns their redrive. */
async function redriveOf(letters: number, aggregates: number): Promise<RedriveHeld> {
  const made = Array.from({ length: letters }, (_, i) =>
    letterOf(itemOf(CONSUMER, `m${i}`, { aggregate: `a${i % aggregates}` })),
  )
  await inbox.park({ consumer: CONSUMER, letters: made, positions: null, deadlineMs: 1_000 })
  const by = { by: 'ada', why: 'mended', asked: '{}' }
  await store.redrives?.create({ filter: { consumer: CONSUMER }, ...by, ...REDRIVE })
  const lease = await store.redrives?.claim({ consumer: CONSUMER, leaseMs: 60_000 })
  if (!lease) throw new Error('no lease')
  return lease
}

/** How often rows are read by this work. */
async function readsOf(work: () => Promise<unknown>): Promise<number> {
  const read = vi.spyOn(store.rows, 'read')
  await work()
  const reads = read.mock.calls.length
  read.mockRestore()
  return reads
}

it('a failed letter of a large redrive blocks its successors in few round trips', async () => {
  const lease = await redriveOf(2_000, 500)
  const error = { reason: 'failed', error: 'no', fingerprint: 'f', causes: '[]' } as const
  const decisions = [{ ord: 1, outcome: 'failed', ...error } as const]
  const reads = await readsOf(async () => expect(await store.redrives?.decide({ ...lease, decisions })).toBe(true))
  expect(reads).toBeLessThan(30)
  const blocked = await store.redrives?.items({ ...lease, outcomes: ['blocked'], after: 0, limit: 10 })
  expect(blocked?.map(({ ord }) => ord)).toEqual([501, 1_001, 1_501])
  expect((await store.redrives?.get(lease))?.counts).toMatchObject({ pending: 1_996, failed: 1, blocked: 3 })
})
