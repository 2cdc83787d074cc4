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

const settle = async (...messages: string[]): Promise<void> => {
  const ids = messages.map((message) => itemOf(CONSUMER, message).id)
  await inbox.letters.discard({ filter: { ids }, limit: 100 })
}
const firstNo = (): string | undefined => store.rows.groups.get(CONSUMER)?.get('first')

it('reading begins behind the swept letters, also when none is left', async () => {
  await park('one', 'two')
  await settle('one', 'two')
  later(120_000)
  await sweepLetters(store.rows, CONSUMER)
  expect(firstNo()).toBe('3')
  await park('three', 'four')
  await settle('three')
  later(120_000)
  await sweepLetters(store.rows, CONSUMER)
  expect([firstNo(), await parked()]).toEqual(['3', ['four']])
  await settle('four')
  later(120_000)
  await sweepLetters(store.rows, CONSUMER)
  expect(firstNo()).toBe('5')
})

it('a letter that is parked behind a settled one during the sweep keeps its row', async () => {
  await park('one')
  await settle('one')
  later(120_000)
  const { read } = store.rows
  let meanwhile: Promise<unknown> | undefined
  store.rows.read = async (group, fields) => {
    const found = await read(group, fields)
    // The sweep has seen all letters by now.
    if (fields.includes('letter:1')) await (meanwhile ??= park('two'))
    return found
  }
  await sweepLetters(store.rows, CONSUMER)
  store.rows.read = read
  const letters = await inbox.letters.list({ filter: {}, limit: 10 })
  expect(letters.map(({ message }) => message)).toEqual(['one', 'two'])
})

/** Writes letters as they are stored. */
function fill(letters: number, head: object): void {
  const group = store.rows.groups.get(CONSUMER)
  if (!group) throw new Error('the consumer is not open')
  const { body, shown, headers, traceparent, causes, ...rest } = letterOf(itemOf(CONSUMER, 'm'))
  const larger = JSON.stringify({ body, shown, headers, traceparent, causes, timeline: '[]' })
  for (let no = 1; no <= letters; no++) {
    group.set(`letter:${no}`, JSON.stringify({ ...rest, parkedAt: 0, settledAt: null, ...head, id: `m${no}` }))
    group.set(`body:${no}`, larger)
  }
  group.set('last', String(letters))
}

/** The longest time in milliseconds in which the process could do nothing else. */
async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  const { read } = store.rows
  let [last, longest] = [performance.now(), 0]
  store.rows.read = async (...of) => {
    longest = Math.max(longest, performance.now() - last)
    await new Promise((resolve) => setImmediate(resolve))
    last = performance.now()
    return read(...of)
  }
  await work()
  store.rows.read = read
  return Math.max(longest, performance.now() - last)
}

it('a sweep of many letters leaves the process time for others', async () => {
  fill(60_000, { state: 'skipped', settledAt: 0 })
  expect(await longestTurn(() => sweepLetters(store.rows, CONSUMER))).toBeLessThan(1_000)
  expect(firstNo()).toBe('60001')
})

it('a list of many letters, too, and a page of an export reads no more than it needs', async () => {
  fill(20_000, { aggregate: 'a' })
  const list = (limit: number, blocks: boolean) => inbox.letters.list({ filter: {}, limit, blocks })
  expect(await longestTurn(() => list(10_000, true))).toBeLessThan(1_000)
  expect((await list(2, true)).map(({ blocks }) => blocks)).toEqual([19_999, 19_998])
  expect(await readsOf(() => list(10, false))).toBeLessThan(6)
})

it('a batch of letters is parked in few round trips', async () => {
  const messages = Array.from({ length: 50 }, (_, i) => `m${i}`)
  expect(await readsOf(() => park(...messages))).toBeLessThan(12)
  expect(await parked()).toEqual(messages)
  const again = ['m0', 'new', 'm1']
  expect([await park(...again), (await parked()).length]).toEqual([[], 51])
})

it('a process that takes a redrive leaves the sweep for later, which may take longer than the lease', async () => {
  later(3_600_000)
  const swept = (): boolean => store.rows.groups.get(CONSUMER)?.has('swept') ?? false
  const lease = await redriveOf(1, 1)
  expect([lease.redrive, swept()]).toEqual([1, false])
  later(20_000)
  expect([await store.redrives?.claim({ consumer: CONSUMER, leaseMs: 1_000 }), swept()]).toEqual([null, true])
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
