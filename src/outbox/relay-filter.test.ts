import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink, type OutgoingEvent, type RelayOptions, type Signal } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { sqliteStore } from '../entry/sqlite.ts'
import type { Store } from '../store/store.ts'

const events = {
  'charge.made': event<{ id: string; n: number }>(({ id }) => id),
  'charge.voided': event<{ id: string; n: number }>(({ id }) => id),
  'stock.moved': event<{ id: string; n: number }>(({ id }) => id),
}

describe.each<[string, () => Store<unknown>]>([
  ['memory', () => memoryStore()],
  ['SQLite', () => sqliteStore({ file: ':memory:' })],
])('a relay that leaves types out, on %s', (_, storeOf) => {
  const open = () => {
    const signals: Signal[] = []
    const observe = (signal: Signal): void => void signals.push(signal)
    const store = storeOf()
    const once = effectivelyOnce({ namespace: 'shop', store, events, sweep: false, guard: 'off', observe })
    return { once, store, signals }
  }
  let world: ReturnType<typeof open>
  let seen: string[]

  beforeEach(async () => {
    world = open()
    seen = []
    await world.once.migrate()
  })
  afterEach(() => world.once.close())

  const to = inProcessSink((sent: OutgoingEvent) => void seen.push(`${sent.type} ${(sent.data as { n: number }).n}`))
  const relay = (options: Omit<RelayOptions, 'to'>) => world.once.relay({ to, ...options })
  let key = 0
  const publish = (types: readonly (keyof typeof events)[]): Promise<unknown> =>
    world.once.run({ scope: 's', key: `k${key++}`, input: null }, async (op) => {
      for (const [n, type] of types.entries()) await op.publish(type, { id: 'a', n })
    })

  it.each<[Omit<RelayOptions, 'to'>, string[]]>([
    [{ only: ['charge.*'] }, ['charge.made 0', 'charge.voided 2']],
    [{ except: ['charge.voided', 'stock.moved'] }, ['charge.made 0']],
    [{ only: ['charge.*'], except: ['*.made'] }, ['charge.voided 2']],
    [{ only: ['charge.made'] }, ['charge.made 0']],
  ])('%j', async (options, expected) => {
    await publish(['charge.made', 'stock.moved', 'charge.voided'])
    expect(await relay(options).drain()).toBe(expected.length)
    expect(seen).toEqual(expected)
    // They are passed, not held up: nobody sends them later.
    expect(await world.once.relay({ to }).drain()).toBe(0)
  })

  it('an event that is left out neither waits behind a parked one nor comes back with a resend', async () => {
    const since = new Date(Date.now() - 60_000)
    let broken = true
    const failing = inProcessSink(
      (sent) => {
        if (broken) throw new Error('no')
        seen.push(sent.type)
      },
      { name: 'failing' },
    )
    await publish(['charge.made', 'stock.moved', 'charge.voided'])
    await world.once.relay({ to: failing, only: ['charge.*'], attempts: 1 }).drain()
    const parked = await world.once.parked.list({ destination: 'failing' })
    expect(parked.map(({ type }) => type)).toEqual(['charge.made', 'charge.voided'])
    broken = false
    await world.once.parked.skip({ destination: 'failing', why: 'test', by: 'test' })
    await world.once.relay({ to: failing, only: ['charge.*'] }).drain()
    expect(seen).toEqual(['charge.voided'])
    expect(await world.once.resend({ destination: 'failing', since })).toBe(3)
    expect(await world.once.relay({ to: failing, only: ['charge.*'] }).drain()).toBe(2)
    expect(seen).toEqual(['charge.voided', 'charge.made', 'charge.voided'])
    // Nothing is left behind: whoever sends everything finds nothing either.
    expect(await world.once.relay({ to: failing }).drain()).toBe(0)
  })

  it('an event that was left out before its time is sent at its time by a resend', async () => {
    const notBefore = new Date(Date.now() + 1_500)
    await world.once.run({ scope: 's', key: `k${key++}`, input: null }, async (op) => {
      await op.publish('charge.made', { id: 'a', n: 0 }, { notBefore })
      await op.publish('charge.made', { id: 'a', n: 1 })
    })
    expect(await relay({ only: ['stock.*'] }).drain()).toBe(0)
    expect(await world.once.resend({ since: new Date(0) })).toBe(2)
    expect(await relay({}).drain()).toBe(1)
    expect(seen).toEqual(['charge.made 1'])
    await new Promise((resolve) => setTimeout(resolve, notBefore.getTime() - Date.now() + 5))
    expect(await relay({}).drain()).toBe(1)
    expect(seen).toEqual(['charge.made 1', 'charge.made 0'])
  })

  it.each([{ only: [] }, { only: 'charge.*' }, { except: [''] }, { only: [4] }])('%j is refused', (options) => {
    expect(() => relay(options as never)).toThrow(/ONCE_OPTION_INVALID/)
  })

  it('sends no more than its rate', async () => {
    await publish(Array.from({ length: 30 }, () => 'charge.made' as const))
    const before = performance.now()
    // One at once, then 50 in a second.
    expect(await relay({ rate: 50 }).drain()).toBe(30)
    expect(performance.now() - before).toBeGreaterThan(500)
    expect(seen).toHaveLength(30)
    for (const rate of [0, -1, Number.NaN, 1e9, '5']) expect(() => relay({ rate: rate as never })).toThrow(/rate/)
  })

  it('tells that it was paused, and that it goes on', async () => {
    const paused = relay({})
    expect(paused.paused).toBe(false)
    paused.pause()
    paused.pause()
    expect(paused.paused).toBe(true)
    paused.resume()
    const told = world.signals.filter(({ kind }) => kind === 'paused' || kind === 'resumed')
    const of = { task: 'relay', name: 'in-process' }
    expect(told).toEqual([
      { kind: 'paused', ...of },
      { kind: 'resumed', ...of },
    ])
  })
})
