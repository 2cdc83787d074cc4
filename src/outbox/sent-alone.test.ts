import { afterEach, expect, test } from 'vitest'
import { effectivelyOnce, event, type Relay } from '../index.ts'
import { SHARDS } from '../limits.ts'
import type { OutgoingEvent, Sink, Verdict } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { MemoryStore } from '../store/memory/memory-store.ts'
import type { HoldParams, Outbox } from '../store/outbox.ts'
import { shardOf } from './publisher.ts'
import { until } from '../../test/support/until.ts'

const events = { made: event<{ id: string; n: number }>(({ id }) => id) }
const SENT: Verdict = { kind: 'sent' }
const FAILED: Verdict = { kind: 'failed', error: new Error('no'), retryable: true }

let relay: Relay | undefined
afterEach(() => relay?.stop())

interface World {
  readonly outbox: (inner: Outbox) => Partial<Outbox>
  readonly orders: boolean
  readonly attempts: number
  readonly verdictOf: (n: number, calls: readonly string[]) => Verdict | Promise<Verdict>
}

/** What the sink was given, and when it was written that an event was skipped. */
async function relayed(world: World): Promise<string[]> {
  const { orders, attempts, verdictOf } = world
  const memory = memoryStore()
  const inner = memory.outbox
  const changed: Outbox = { ...inner, ...world.outbox(inner) }
  const calls: string[] = []
  const note = (held: readonly HoldParams[]): void => {
    if (held.some(({ state }) => state === 'skipped')) calls.push('skipped')
  }
  const outbox: Outbox = {
    ...changed,
    async ack(params) {
      const acked = await changed.ack(params)
      note(params.hold)
      return acked
    },
    async settleHeld(params) {
      const settled = await changed.settleHeld(params)
      note(params.changed)
      return settled
    },
  }
  const sink: Sink = {
    name: 'sink',
    proves: 'accepted',
    dedupes: false,
    orders,
    async send(sent: readonly OutgoingEvent[]) {
      const verdicts: Verdict[] = []
      for (const { data } of sent) {
        const { n } = data as { n: number }
        if (verdicts.at(-1) !== FAILED) calls.push(`a${n}`)
        verdicts.push(verdicts.at(-1) === FAILED ? FAILED : await verdictOf(n, calls))
      }
      return verdicts
    },
  }
  const store: MemoryStore = { ...memory, outbox }
  const once = effectivelyOnce({ namespace: 'alone', store, events, sweep: false })
  await once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
    for (const n of [1, 2, 3, 4]) await publish('made', { id: 'a', n })
  })
  relay = await once.relay({ to: sink, attempts, onFailure: 'skip', lease: '600ms' }).start()
  await until(() => calls.includes('a4'))
  return calls
}

/** As if a relay had died while it sent them. */
function triedBefore(inner: Outbox): Pick<Outbox, 'due'> {
  let died = true
  return {
    async due(params) {
      const due = await inner.due(params)
      if (!died || due.events.length === 0) return due
      died = false
      return { ...due, events: due.events.map((of) => ({ ...of, tried: 1 })) }
    },
  }
}

const isFirst = (n: number): Verdict => (n === 1 ? FAILED : SENT)

test.each([false, true])(
  'what follows a held event that is skipped is not sent before that is written, sink orders: %s',
  async (orders) => {
    const calls = await relayed({ outbox: triedBefore, orders, attempts: 2, verdictOf: isFirst })
    expect(calls).toEqual(['a1', 'a1', 'skipped', 'a2', 'a3', 'a4'])
  },
)

test.each([false, true])(
  'what follows a suspect that is skipped is not sent before that is written, sink orders: %s',
  async (orders) => {
    // As if two relays had died while they sent these.
    const outbox = (inner: Outbox): Partial<Outbox> => ({
      lease: async (params) => (await inner.lease(params)).map((of) => ({ ...of, tryingTo: 1_000, attempt: 2 })),
    })
    const calls = await relayed({ outbox, orders, attempts: 1, verdictOf: isFirst })
    expect(calls).toEqual(['a1', 'skipped', 'a2', 'a3', 'a4'])
  },
)

test('a relay goes on when the shard of what it sends alone was lost', async () => {
  const taken: { shard: number; token: number }[] = []
  let lost = false
  let inner: Outbox | undefined
  const outbox = (of: Outbox): Partial<Outbox> => {
    inner = of
    return {
      ...triedBefore(of),
      async lease(params) {
        const leased = await of.lease(params)
        taken.push(...leased)
        return leased
      },
      async beat(params) {
        const beat = await of.beat(params)
        lost ||= params.leases.length > 0 && beat.ours.length === 0
        return beat
      },
    }
  }
  const other = { destination: 'sink', relay: 'thief' }
  const verdictOf = async (n: number, calls: readonly string[]): Promise<Verdict> => {
    if (n !== 1 || calls.length > 2) return SENT
    if (calls.length === 1 || !inner) return FAILED
    await inner.release({ ...other, leases: taken, leaving: false })
    const leases = await inner.lease({ ...other, leaseMs: 60_000, limit: SHARDS })
    await until(() => lost)
    await inner.release({ ...other, leases, leaving: true })
    return FAILED
  }
  const calls = await relayed({ outbox, orders: false, attempts: 5, verdictOf })
  expect(calls).toEqual(['a1', 'a1', 'a1', 'a2', 'a3', 'a4'])
})

test('a suspect that failed is sent later, also when the sink went down before the others were', async () => {
  const memory = memoryStore()
  const inner = memory.outbox
  const outbox: Outbox = {
    ...inner,
    lease: async (params) => (await inner.lease(params)).map((of) => ({ ...of, tryingTo: 1_000, attempt: 2 })),
  }
  const other = Array.from({ length: 1_000 }, (_, n) => `b${n}`).find((id) => shardOf(id) === shardOf('a')) as string
  const calls: string[] = []
  const countOf = (call: string): number => calls.filter((of) => of === call).length
  const sink: Sink = {
    name: 'sink',
    proves: 'accepted',
    dedupes: false,
    orders: false,
    batch: 1,
    async send([of]: readonly OutgoingEvent[]) {
      const { id, n } = (of as OutgoingEvent).data as { id: string; n: number }
      const call = `${id.slice(0, 1)}${n}`
      calls.push(call)
      if (call === 'a1' && countOf(call) === 1) return [FAILED]
      if (call === 'b1' && countOf(call) <= 3) throw new Error('down')
      return [SENT]
    },
  }
  const store: MemoryStore = { ...memory, outbox }
  const once = effectivelyOnce({ namespace: 'alone', store, events, sweep: false })
  await once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
    for (const n of [1, 2]) for (const id of ['a', other]) await publish('made', { id, n })
  })
  relay = await once.relay({ to: sink }).start()
  await until(() => calls.includes('b2') && calls.includes('a2'))
  expect(calls.lastIndexOf('a1')).toBeGreaterThan(0)
  expect(calls.lastIndexOf('a1')).toBeLessThan(calls.indexOf('a2'))
}, 20_000)
