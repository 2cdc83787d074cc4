import { describe, expect, it } from 'vitest'
import { effectivelyOnce, type Once } from '../index.ts'
import type { Signal } from '../observe/signal.ts'
import { instanceOf } from '../once/instance.ts'
import { systemClock } from '../platform/clock.ts'
import { dropAnswers, type AnswerCache } from '../store/answer-cache.ts'
import type { MemoryTx } from '../store/memory/database/memory-tx.ts'
import { memoryStore, type MemoryStore } from '../store/memory/memory-store.ts'
import type { CacheServer } from './cache-server.ts'
import { Epoch } from './epoch.ts'
import { EPOCH_SETTLES_MS } from './limits.ts'
import { tiered } from './tiered.ts'

/** A cache server in this process. */
function memoryCache(): CacheServer & {
  readonly slots: Map<string, { nonce?: string; entry?: string }>
  down: boolean
} {
  const slots = new Map<string, { nonce?: string; entry?: string }>()
  const cache = {
    name: 'test',
    slots,
    down: false,
    isReady: () => !cache.down,
    async look({ key, nonce }: { key: string; nonce: string }) {
      const entry = slots.get(key)?.entry
      if (entry === undefined) slots.set(key, { nonce })
      return entry ?? null
    },
    async write({ key, nonce, entry }: { key: string; nonce: string; entry: string }) {
      if (slots.get(key)?.nonce !== nonce) return false
      slots.set(key, { entry })
      return true
    },
    async drop(keys: readonly string[]) {
      if (cache.down) throw new Error('down')
      for (const key of keys) slots.delete(key)
    },
  }
  return cache
}

interface Opened {
  readonly once: Once<MemoryTx, {}>
  readonly shared: AnswerCache
  from(): string[]
}

function open(store: MemoryStore, cache: CacheServer): Opened {
  const signals: Signal[] = []
  const once = effectivelyOnce({
    namespace: 'shop',
    store: tiered(store, { cache }),
    guard: 'off',
    sweep: false,
    observe: (signal) => signals.push(signal),
  })
  const from = (): string[] => signals.flatMap((signal) => (signal.kind === 'replayed' ? signal.from : []))
  return { once, from, shared: instanceOf(once).core.shared! }
}

/** The epoch is read in the background. */
async function ready({ shared }: Opened): Promise<void> {
  await shared.remove([])
}

const pay = { scope: 'user', key: 'k', input: { amount: 1 } }

describe('a tiered store', () => {
  it('answers the retry of another process from the cache, and another input from the database', async () => {
    const [store, cache] = [memoryStore(), memoryCache()]
    const [one, other] = [open(store, cache), open(store, cache)]
    await Promise.all([ready(one), ready(other)])
    expect(await one.once.run(pay, async () => 'paid')).toBe('paid')
    const never = (): Promise<string> => Promise.reject(new Error('it ran again'))
    expect(await other.once.run(pay, never)).toBe('paid')
    expect(other.from()).toEqual(['cache'])
    expect(await other.once.run(pay, never)).toBe('paid')
    expect(other.from()).toEqual(['cache', 'memory'])
    const third = open(store, cache)
    await ready(third)
    await expect(third.once.run({ ...pay, input: { amount: 2 } }, never)).rejects.toMatchObject({
      code: 'ONCE_MISMATCH',
    })
    expect(await third.once.run(pay, never)).toBe('paid')
  })

  it.concurrent.each([true, false])(
    'does not answer for an erased operation, whether the erasing process knows it (%s) or not',
    async (knows) => {
      const [store, cache] = [memoryStore(), memoryCache()]
      const [one, other] = [open(store, cache), open(store, cache)]
      await Promise.all([ready(one), ready(other)])
      await one.once.run(pay, async () => 'paid')
      const eraser = knows ? one.once : effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
      expect(await eraser.erase({ scope: 'user' })).toMatchObject({ operations: 1, finished: true })
      const never = (): Promise<string> => Promise.reject(new Error('it ran again'))
      await expect(other.once.run(pay, never)).rejects.toMatchObject({ code: 'ONCE_GONE' })
    },
    15_000,
  )

  it.concurrent(
    'does not answer for an operation whose erasure was cut off before the new epoch, and was run again',
    async () => {
      const [store, cache] = [memoryStore(), memoryCache()]
      const one = open(store, cache)
      await ready(one)
      await one.once.run(pay, async () => 'paid')
      let fails = true
      const cutOff = new Proxy(store, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name, target)
          if (name !== 'refuse' || !fails) return value
          return () => Promise.reject(new Error('the process died'))
        },
      })
      const eraser = effectivelyOnce({ namespace: 'shop', store: cutOff, guard: 'off', sweep: false })
      await expect(eraser.erase({ scope: 'user' })).rejects.toThrow('the process died')
      fails = false
      expect(await eraser.erase({ scope: 'user' })).toMatchObject({ operations: 0, finished: true, copiesExpire: true })
      const other = open(store, cache)
      await ready(other)
      const never = (): Promise<string> => Promise.reject(new Error('it ran again'))
      await expect(other.once.run(pay, never)).rejects.toMatchObject({ code: 'ONCE_GONE' })
    },
    30_000,
  )

  it.concurrent(
    'an erasure without the cache server begins one new epoch, and says that copies expire',
    async () => {
      const [store, cache] = [memoryStore(), memoryCache()]
      const one = open(store, cache)
      await ready(one)
      for (let i = 0; i < 2_500; i++) await one.once.run({ ...pay, key: `k${i}` }, async () => 'paid')
      const epoch = new Epoch(store, systemClock)
      const before = await epoch.read()
      cache.down = true
      expect(await one.once.erase({ scope: 'user' })).toMatchObject({ operations: 2_500, copiesExpire: true })
      expect((await epoch.read()).no).toBe(before.no + 1)
    },
    30_000,
  )

  it('a new process passes many epochs in few statements, and one that knows the newest in two', async () => {
    const store = memoryStore()
    const epoch = new Epoch(store, { ...systemClock, after: (_, callback) => systemClock.after(0, callback) })
    for (let n = 0; n < 100; n++) await epoch.renew()
    let reads = 0
    const read: MemoryStore['read'] = (of) => (reads++, store.read(of))
    const counted = { read, outbox: store.outbox, refuse: store.refuse.bind(store) }
    const other = new Epoch(counted, systemClock)
    expect((await other.read()).no).toBe(100)
    expect(reads).toBeLessThan(40)
    reads = 0
    expect((await other.read()).no).toBe(100)
    expect(reads).toBe(2)
  })

  it('an epoch counts from before the database was asked who it is', async () => {
    let now = 0
    const store = memoryStore()
    const identity = async () => {
      // The process was stopped, and meanwhile another server was promoted.
      now += 10_000
      return { timeline: 'old', database: 'shop' }
    }
    const asked = { read: store.read.bind(store), refuse: store.refuse.bind(store), outbox: { identity } as never }
    const epoch = new Epoch(asked, { ...systemClock, now: () => now })
    await epoch.read()
    expect(epoch.current()).toBeUndefined()
  })

  it('a wrong entry of the cache causes no 422, not even through the memory of the process', async () => {
    const [store, cache] = [memoryStore(), memoryCache()]
    const one = open(store, cache)
    await ready(one)
    await one.once.run(pay, async () => 'paid')
    // As if the entry belonged to a record that the database has lost.
    const elsewhere = memoryStore()
    const other = open(elsewhere, cache)
    await ready(other)
    const wrong = [...cache.slots.values()].find(({ entry }) => entry)
    const name = (await new Epoch(elsewhere, systemClock).read()).name
    const [key = ''] = cache.slots.keys()
    if (wrong) cache.slots.set(`effectively-once-cache:${name}:${key.slice(key.indexOf('{'))}`, wrong)
    expect(await other.once.run(pay, async () => 'again')).toBe('paid')
    expect(await other.once.run({ ...pay, input: { amount: 2 } }, async () => 'other')).toBe('other')
  })

  it('an erasure that the cache confirms leaves no copy', async () => {
    const [store, cache] = [memoryStore(), memoryCache()]
    const one = open(store, cache)
    await ready(one)
    await one.once.run(pay, async () => 'paid')
    expect(await one.once.erase({ scope: 'user' })).toMatchObject({ operations: 1, copiesExpire: false })
    expect([...cache.slots.values()].filter(({ entry }) => entry)).toEqual([])
  })

  it('a new epoch that seems to come from the future is waited for no longer than any other', async () => {
    let back = 0
    const store = memoryStore({
      clock: { now: () => Date.now() - back, after: (ms, callback) => systemClock.after(ms, callback) },
    })
    const waits: number[] = []
    const after = (ms: number, callback: () => void): (() => void) => {
      waits.push(ms)
      return systemClock.after(0, callback)
    }
    const epoch = new Epoch(store, { ...systemClock, after })
    await epoch.renew()
    // As after a failover to a server whose clock is behind.
    back = 3_600_000
    await epoch.settled()
    expect(Math.max(...waits)).toBeLessThanOrEqual(EPOCH_SETTLES_MS)
  })

  it('is filled by the first retry that reads the database, but not after the answer was dropped', async () => {
    const [store, cache] = [memoryStore(), memoryCache()]
    const one = open(store, cache)
    await ready(one)
    await one.once.run(pay, async () => 'paid')
    cache.slots.clear()
    const other = open(store, cache)
    await ready(other)
    await other.once.run(pay, async () => 'again')
    expect(other.from()).toEqual(['database'])
    expect([...cache.slots.values()].filter(({ entry }) => entry)).toHaveLength(1)
    const id = /\{(.*)\}/.exec([...cache.slots.keys()][0] ?? '')?.[1] ?? ''
    expect(await other.shared.remove([id])).toBe(true)
    expect([...cache.slots.values()].filter(({ entry }) => entry)).toEqual([])
  })

  it('shares no answer of a transaction that was rolled back', async () => {
    const [store, cache] = [memoryStore(), memoryCache()]
    const one = open(store, cache)
    await ready(one)
    await expect(one.once.run(pay, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect([...cache.slots.values()].filter(({ entry }) => entry)).toEqual([])
  })

  it.concurrent('drops by a new epoch what the cache does not confirm', { timeout: 30_000 }, async () => {
    const [store, cache] = [memoryStore(), memoryCache()]
    const one = open(store, cache)
    await ready(one)
    await one.once.run(pay, async () => 'paid')
    const [key = ''] = cache.slots.keys()
    const epoch = new Epoch(store, systemClock)
    const before = await epoch.read()
    expect(key.startsWith(`effectively-once-cache:${before.name}:`)).toBe(true)
    cache.down = true
    await dropAnswers(one.shared, [/\{(.*)\}/.exec(key)?.[1] ?? ''])
    cache.down = false
    expect((await epoch.read()).no).toBe(before.no + 1)
    const other = open(store, cache)
    await ready(other)
    await other.once.run(pay, async () => 'again')
    expect(other.from()).toEqual(['database'])
  })

  it('refuses what is no SQL store, no cache or no option', () => {
    const cache = memoryCache()
    expect(() => tiered({} as MemoryStore, { cache })).toThrow(/needs a SQL store/)
    expect(() => tiered(memoryStore(), {} as never)).toThrow(/needs \{ cache/)
    expect(() => tiered(memoryStore(), { cache, cash: 1 } as never)).toThrow(/unknown option 'cash'/)
  })
})
