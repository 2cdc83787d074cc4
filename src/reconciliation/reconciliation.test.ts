import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { final } from '../index.ts'
import { effectivelyOnce } from '../once/once.ts'
import type { Once } from '../once/types.ts'
import { memoryStore, type MemoryStore } from '../store/memory/memory-store.ts'
import { reconciliation } from './reconciliation.ts'
import type { Compensations, ReconciliationOptions, Side } from './types.ts'

interface Entry {
  readonly key: string
  readonly id?: number
  readonly pad?: string
}

let store: MemoryStore
let once: Once<never, {}>
const WHY = { by: 'ada', why: 'INC-17' } as const

beforeEach(() => {
  store = memoryStore()
  once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false }) as never
})
afterEach(() => once.close())

const numbered = (keys: readonly string[]): Entry[] => keys.map((key, id) => ({ key, id }))
const sideOf =
  (keys: readonly string[]): Side<Entry> =>
  () =>
    numbered(keys)

function comparing(
  ours: readonly string[],
  theirs: readonly string[],
  more: Partial<ReconciliationOptions<Entry, Entry>> = {},
): ReturnType<typeof reconciliation<Entry, Entry>> {
  return reconciliation({
    once,
    name: 'charges',
    ours: sideOf(ours),
    theirs: sideOf(theirs),
    key: ({ key }) => key,
    ...more,
  })
}

describe('a reconciliation', () => {
  it('finds missing, double and orphaned calls, and changes nothing in a dry run', async () => {
    const found = comparing(['a', 'b', 'c', 'd'], ['a', 'a', 'a', 'b', 'd', 'e'])
    const plan = await found.plan()
    expect(plan).toMatchObject({ ours: 4, theirs: 6, missing: 1, double: 2, orphaned: 1 })
    expect(plan.examples).toEqual([
      { kind: 'double', key: 'a', ours: { key: 'a', id: 0 }, theirs: { key: 'a', id: 1 } },
      { kind: 'double', key: 'a', ours: { key: 'a', id: 0 }, theirs: { key: 'a', id: 2 } },
      { kind: 'missing', key: 'c', ours: { key: 'c', id: 2 } },
      { kind: 'orphaned', key: 'e', theirs: { key: 'e', id: 5 } },
    ])
    const streamed: string[] = []
    for await (const { kind, key } of found.findings()) streamed.push(`${kind} ${key}`)
    expect(streamed).toEqual(['double a', 'double a', 'missing c', 'orphaned e'])
    expect(await once.operations.list()).toEqual([])
  })

  it('shows at most 20 examples of each kind, however many findings one key has', async () => {
    const all = (key: string, count: number): string[] => Array.from({ length: count }, () => key)
    const ours = ['a', ...Array.from({ length: 15 }, (_, n) => `m${10 + n}`), ...all('n', 30)]
    const { examples, ...found } = await comparing(ours, [...all('a', 41), ...all('z', 19), ...all('zz', 30)]).plan()
    expect(found).toMatchObject({ double: 40, missing: 45, orphaned: 49 })
    const of = (kind: string): string[] => examples.filter((each) => each.kind === kind).map(({ key }) => key)
    expect(of('double')).toEqual(all('a', 20))
    expect(of('missing')).toEqual([...ours.slice(1, 16), ...all('n', 5)])
    expect(of('orphaned')).toEqual([...all('z', 19), 'zz'])
  })

  it('compensates findings that are large, page by page', async () => {
    const made = new Set<string>()
    // 100 of these findings are more than a step may record.
    const keys = Array.from({ length: 120 }, (_, i) => String(i).padStart(3, '0'))
    const large = (copies: number) => () =>
      keys.flatMap((key) => Array.from({ length: copies }, () => ({ key, text: 'ü'.repeat(3_000) })))
    const found = comparing([], [], {
      ours: large(1),
      theirs: large(2),
      compensate: { double: ({ key }) => Promise.resolve(made.add(key).size) },
    })
    const result = await found.run({ ...WHY, rate: 10_000 })
    expect(result).toMatchObject({ state: 'done', ours: 120, theirs: 240, double: 120, compensated: 120 })
    expect(made.size).toBe(120)
  })

  it('compensates each finding once, however often it runs, and is audited', async () => {
    const made: string[] = []
    const keys = new Set<string>()
    const note =
      (what: string) =>
      async ({ key }: { key: string }, call: { key: string }): Promise<string> => {
        made.push(`${what} ${key}`)
        keys.add(call.key)
        return 'done'
      }
    const compensate: Compensations<Entry, Entry> = {
      missing: note('settle'),
      double: note('refund'),
      orphaned: note('cancel'),
    }
    const found = comparing(['a', 'b', 'c'], ['a', 'a', 'a', 'b', 'd'], { compensate })
    const totals = { ours: 3, theirs: 5, missing: 1, double: 2, orphaned: 1, compensated: 4, refused: 0 }
    expect(await found.run(WHY)).toEqual({ ...totals, state: 'done', reason: null })
    expect(await found.run(WHY)).toEqual({ ...totals, state: 'done', reason: null })
    expect(made).toEqual(['refund a', 'refund a', 'settle c', 'cancel d'])
    expect(keys.size).toBe(4)
    const audit = await once.redrive.audit({})
    expect(audit.map(({ action }) => action)).toContain('reconciliation run')
    expect(audit.find(({ action }) => action === 'reconciliation done')).toMatchObject(WHY)
  })

  it('does not pass a finding whose compensation failed, and retries only that one', async () => {
    const made: string[] = []
    let isDown = true
    const double = async ({ key }: { key: string }): Promise<void> => {
      if (key === 'b' && isDown) throw new Error('the bank is down')
      made.push(key)
    }
    const found = comparing(['a', 'b', 'c'], ['a', 'a', 'b', 'b', 'c', 'c'], { compensate: { double } })
    const paused = await found.run({ ...WHY, canary: 0 })
    expect(paused).toMatchObject({
      state: 'paused',
      reason: expect.stringContaining('1 findings were not compensated'),
    })
    expect(made).toEqual(['a', 'c'])
    isDown = false
    expect(await found.run({ ...WHY, canary: 0 })).toMatchObject({ state: 'done', compensated: 3 })
    expect(made).toEqual(['a', 'c', 'b'])
  })

  it('pauses at the first failure of the canary, and after the canary if told to', async () => {
    let calls = 0
    const keys = Array.from({ length: 30 }, (_, n) => `k${String(n).padStart(2, '0')}`)
    const failing = comparing(keys, [], {
      name: 'failing',
      compensate: {
        missing: async () => {
          if (++calls === 3) throw new Error('no such account')
        },
      },
    })
    const paused = await failing.run(WHY)
    expect(paused).toMatchObject({ state: 'paused', reason: expect.stringContaining('no such account') })
    expect(calls).toBe(3)
    calls = 0
    const careful = comparing(keys, [], {
      name: 'careful',
      compensate: { missing: async () => void calls++ },
    })
    const options = { ...WHY, canary: 5, rate: 1_000 } as const
    const after = await careful.run({ ...options, afterCanary: 'pause' })
    expect(after).toMatchObject({ state: 'paused', missing: 30, compensated: 5 })
    expect(calls).toBe(5)
    expect(await careful.run(options)).toMatchObject({ state: 'done', compensated: 30 })
    expect(calls).toBe(30)
  })

  it('tells what was compensated before a pause', async () => {
    const missing = async ({ key }: { key: string }): Promise<void> => {
      if (key === 'c') throw new Error('no such account')
    }
    const found = comparing(['a', 'b', 'c', 'd'], ['d'], { compensate: { missing } })
    const totals = { state: 'paused', ours: 4, theirs: 1, missing: 3, compensated: 2 }
    expect(await found.run(WHY)).toMatchObject(totals)
    const audit = await once.redrive.audit({})
    expect(audit.find(({ action }) => action === 'reconciliation paused')).toMatchObject({ detail: { compensated: 2 } })
  })

  it.each([
    ['100 findings of 30 kB', 100, 30_000],
    ['1,000 entries of one key', 1_000, 3_000],
  ])('compensates each of %s once, over a failure', async (_, count, bytes) => {
    const made = new Set<number | undefined>()
    let calls = 0
    const theirs = (): Entry[] =>
      Array.from({ length: count }, (_, id) => ({
        key: count > 100 ? 'k' : `k${1_000 + id}`,
        id,
        pad: 'x'.repeat(bytes),
      }))
    const orphaned = async ({ theirs: { id } }: { theirs: Entry }): Promise<void> => {
      if (++calls === 70) throw new Error('the bank is down')
      made.add(id)
    }
    const found = comparing([], [], { theirs, compensate: { orphaned } })
    const options = { ...WHY, canary: 0, rate: 100_000 }
    expect(await found.run(options)).toMatchObject({ state: 'paused' })
    expect(await found.run(options)).toMatchObject({ state: 'done', orphaned: count, compensated: count })
    expect([made.size, calls]).toEqual([count, count + 1])
  })

  it('an attempt that died while it recorded many findings leaves none of them behind', async () => {
    let recordings = 0
    const cut = memoryStore({
      step({ label, at }) {
        if (label === 'finishStep' && at === 'reply' && ++recordings === 2) throw new Error('cut')
        return undefined
      },
    })
    const beside = effectivelyOnce({ namespace: 'shop', store: cut, guard: 'off', sweep: false }) as never
    const pad = 'x'.repeat(400_000)
    let ids = [1, 2, 3, 4]
    const made: (number | undefined)[] = []
    const found = comparing([], [], {
      once: beside,
      theirs: () => ids.map((id) => ({ key: `k${id}`, id, pad })),
      compensate: { orphaned: async ({ theirs }) => void made.push(theirs.id) },
    })
    await expect(found.run(WHY)).rejects.toMatchObject({ code: expect.stringMatching(/^ONCE_/) })
    ids = [2, 4, 5]
    expect(await found.run(WHY)).toMatchObject({ state: 'done', orphaned: 3, compensated: 3 })
    expect(made).toEqual([2, 4, 5])
  })

  it('counts a compensation that was refused for good, and goes on', async () => {
    const found = comparing(['a', 'b'], [], {
      compensate: {
        missing: async ({ key }) => {
          if (key === 'a') throw final({ status: 409, body: 'the account is closed' })
        },
      },
    })
    const totals = { state: 'done', missing: 2, compensated: 1, refused: 1 }
    expect(await found.run({ ...WHY, canary: 0 })).toMatchObject(totals)
    expect(await found.run({ ...WHY, canary: 0 })).toMatchObject(totals)
  })

  it('keeps the rate', async () => {
    const found = comparing(['a', 'b', 'c', 'd'], [], { compensate: { missing: async () => 1 } })
    const startedAt = performance.now()
    await found.run({ ...WHY, rate: 10 })
    expect(performance.now() - startedAt).toBeGreaterThan(250)
  })

  it('resumes after the last page: earlier keys are not read again', async () => {
    const keys = Array.from({ length: 5_000 }, (_, n) => `k${String(n).padStart(5, '0')}`)
    const asked: (string | null)[] = []
    let reads = 0
    const ours: Side<Entry> = async function* ({ after }) {
      asked.push(after)
      for (const key of keys) {
        if (after !== null && key <= after) continue
        if (++reads === 4_200) throw new Error('the database went away')
        yield { key }
      }
    }
    const found = comparing([], keys, { ours })
    await expect(found.run(WHY)).rejects.toThrow('went away')
    expect(await found.run(WHY)).toMatchObject({ state: 'done', ours: 5_000, theirs: 5_000, missing: 0, orphaned: 0 })
    expect(asked[0]).toBeNull()
    expect(asked.at(-1)).toBe('k03999')
    expect(await found.run(WHY)).toMatchObject({ ours: 5_000 })
    expect(reads).toBeLessThan(5_500)
  })

  it('is run by one process at a time', async () => {
    let go = (): void => {}
    const held = new Promise<void>((resolve) => (go = resolve))
    const missing = (): Promise<void> => held
    const first = comparing(['a'], [], { compensate: { missing }, lease: '1s' }).run(WHY)
    const beside = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false }) as never
    const second = comparing(['a'], [], { compensate: { missing }, lease: '1s', once: beside }).run(WHY)
    await expect(second).rejects.toThrow("Another process runs the reconciliation 'charges'")
    go()
    expect(await first).toMatchObject({ state: 'done', compensated: 1 })
  })

  it.each([
    ['ours', ['b', 'a'], ['a'], "ours is not ordered by key: 'a' came after 'b'"],
    ['theirs', ['a'], ['c', 'b'], "theirs is not ordered by key: 'b' came after 'c'"],
    ['an empty key', [''], [], 'ours has an entry without a key'],
    ['one key too often', [], Array.from({ length: 1_001 }, () => 'a'), 'theirs has more than 1000 entries'],
  ])('refuses %s', async (_, ours, theirs, message) => {
    const found = comparing(ours, theirs)
    await expect(found.plan()).rejects.toMatchObject({
      code: 'ONCE_SIDE_INVALID',
      message: expect.stringContaining(message),
    })
    await expect(found.run(WHY)).rejects.toMatchObject({ code: 'ONCE_SIDE_INVALID' })
  })

  it('refuses wrong options', async () => {
    const invalid = expect.objectContaining({ code: 'ONCE_OPTION_INVALID' })
    for (const more of [{ name: '' }, { key: 'id' }, { ours: [] }, { compensate: { lost: () => 1 } }, { lease: '1ms' }])
      expect(() => comparing([], [], more as never)).toThrow(invalid)
    const found = comparing([], [])
    for (const more of [
      { why: '' },
      { rate: 0 },
      { canary: -1 },
      { pauseAt: 2 },
      { afterCanary: 'stop' },
      { dry: true },
    ])
      await expect(found.run({ ...WHY, ...more } as never)).rejects.toEqual(invalid)
    const wrong = comparing([], [], { ours: (() => 1) as never })
    await expect(wrong.plan()).rejects.toMatchObject({ code: 'ONCE_SIDE_INVALID' })
  })
})
