import assert from 'node:assert/strict'
import { milliseconds } from '../../../src/duration.ts'
import type { OutgoingEvent } from '../../../src/sink/sink.ts'
import type { Delivery, PulledSource, ReceivedEvent, Subscription } from '../../../src/source/source.ts'
import { eventFor } from '../../../src/testing/sink-contract/index.ts'
import { take as takeWithin } from '../../../src/testing/source-contract/take.ts'

/** A source on its real server, at a place of its own. `holdsFor` should be about two seconds. */
export interface SourceTarget {
  readonly source: PulledSource<unknown>
  send(...events: readonly OutgoingEvent[]): Promise<void>
  /** A message that is no event. */
  sendText(text: string): Promise<void>
  readonly outage: { begin(): Promise<void>; end(): Promise<void> }
  close(): Promise<void>
}

/** The others can run at the same time; this one cannot. */
const OUTAGE = 'goes on when the server was away'
const WAIT_MS = 5_000
const QUIET_MS = 300

class Bench {
  readonly target: SourceTarget
  readonly #open: Subscription[] = []
  readonly warnings: unknown[] = []
  readonly stop: AbortController = new AbortController()

  constructor(target: SourceTarget) {
    this.target = target
  }

  async subscribe(consumer = 'reader'): Promise<Subscription> {
    const subscription = await this.target.source.open({
      consumer,
      signal: this.stop.signal,
      prefetch: 100,
      positions: { read: async () => new Map() },
      warn: (error) => void this.warnings.push(error),
      advise: () => {},
    })
    this.#open.push(subscription)
    return subscription
  }

  async closeAll(): Promise<void> {
    for (const subscription of this.#open.splice(0)) await subscription.close().catch(() => {})
  }

  async closeOne(subscription: Subscription): Promise<void> {
    this.#open.splice(this.#open.indexOf(subscription), 1)
    await subscription.close()
  }
}

const take = (from: Subscription, count: number, waitMs = WAIT_MS): Promise<Delivery[]> =>
  takeWithin(from, count, waitMs)
const ids = (deliveries: readonly { readonly id: string }[]): string[] => deliveries.map(({ id }) => id)
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const some = (name: string, count: number): OutgoingEvent[] =>
  Array.from({ length: count }, (_, i) => eventFor(name, i + 1))

/** Where it is long, nobody waits for it. */
function holdsForMs({ holdsFor }: PulledSource<unknown>): number {
  if (holdsFor === 'connection') return 0
  const ms = milliseconds(holdsFor, 0, { option: '', min: 0, max: Infinity })
  return ms > 10_000 ? 0 : ms
}

type CaseBody = (bench: Bench) => Promise<void>

const CASES: Readonly<Record<string, CaseBody>> = {
  async 'delivers an event with every attribute'(bench) {
    const event = eventFor('whole', 1, { text: 'żółw 🐢', nested: [1, null] })
    await bench.target.send(event)
    const [delivery] = await take(await bench.subscribe(), 1)
    assert.ok(delivery)
    const { id, source, type, aggregate, traceparent, delivered, redelivered, problem } = delivery
    assert.deepEqual(
      { id, source, type, aggregate, traceparent, problem },
      { id: event.id, source: event.source, type: event.type, aggregate: 'whole', traceparent: event.traceparent, problem: undefined }, // prettier-ignore
    )
    assert.deepEqual({ delivered, redelivered }, { delivered: 1, redelivered: false })
    assert.deepEqual((delivery.event as ReceivedEvent).data, event.data)
    assert.ok(delivery.body.includes('żółw'))
  },
  async 'delivers bytes as bytes, with the tenant and every other header'(bench) {
    const bytes = Uint8Array.from({ length: 300 }, (_, n) => n % 256)
    const json = JSON.stringify(Buffer.from(bytes).toString('base64'))
    const headers = { source: 'contract', tenant: 'acme', region: 'eu', partitionkey: 'p7', notbefore: '2020-01-01' }
    const datacontenttype = 'application/x-protobuf'
    const event = { ...eventFor('bytes', 1), data: bytes, json, body: bytes, datacontenttype, headers }
    await bench.target.send(event)
    const [delivery] = await take(await bench.subscribe(), 1)
    assert.ok(delivery)
    const { data, headers: came } = delivery.event as ReceivedEvent
    assert.deepEqual([delivery.problem, delivery.tenant, delivery.id], [undefined, 'acme', event.id])
    assert.ok(data instanceof Uint8Array)
    assert.deepEqual([...data], [...bytes])
    const { tenant, region, partitionkey, ...others } = came
    assert.deepEqual({ tenant, region, partitionkey }, { tenant: 'acme', region: 'eu', partitionkey: 'p7' })
    assert.deepEqual([others['notbefore'], others['data_base64']], [undefined, undefined])
  },
  async 'delivers what comes while it waits, at once and in order'(bench) {
    const subscription = await bench.subscribe()
    const began = performance.now()
    const waiting = take(subscription, 1)
    await sleep(200)
    const events = some('soon', 20)
    await bench.target.send(...events)
    const seen = await waiting
    const tookMs = performance.now() - began
    await subscription.ack(seen)
    while (seen.length < 20) {
      const more = await take(subscription, 1)
      if (more.length === 0) break
      await subscription.ack(more)
      seen.push(...more)
    }
    assert.deepEqual(ids(seen), ids(events))
    // Waiting does not go on until the time is over.
    assert.ok(tookMs < WAIT_MS - 1_000, `after ${tookMs} ms`)
  },
  async 'answers with nothing when the time is over, and at most what was asked for'(bench) {
    const subscription = await bench.subscribe()
    const began = performance.now()
    assert.deepEqual(await take(subscription, 1, QUIET_MS), [])
    assert.ok(performance.now() - began < QUIET_MS + 1_500)
    await bench.target.send(...some('five', 5))
    const { signal } = new AbortController()
    const few = await subscription.receive({ max: 2, waitMs: WAIT_MS, signal })
    assert.ok(few.length >= 1 && few.length <= 2)
  },
  async 'ends at once when nobody waits any more'(bench) {
    const subscription = await bench.subscribe()
    const given = new AbortController()
    const began = performance.now()
    const waiting = subscription.receive({ max: 1, waitMs: 10_000, signal: given.signal })
    await sleep(100)
    given.abort()
    assert.deepEqual(await waiting, [])
    assert.ok(performance.now() - began < 1_500)
    // What comes then is not lost to the next caller.
    const event = eventFor('after', 1)
    await bench.target.send(event)
    assert.deepEqual(ids(await take(subscription, 1)), [event.id])
  },
  async 'never brings again what was acknowledged or rejected'(bench) {
    const events = some('done', 6)
    await bench.target.send(...events)
    const first = await bench.subscribe()
    const deliveries = await take(first, 6)
    await first.ack(deliveries.slice(0, 3))
    await (first.reject?.(deliveries.slice(3), { reason: 'poison' }) ?? first.ack(deliveries.slice(3)))
    await bench.closeOne(first)
    await sleep(holdsForMs(bench.target.source) + 500)
    assert.deepEqual(ids(await take(await bench.subscribe(), 1, 500)), [])
  },
  async 'brings again what was not settled, to another one, and counts'(bench) {
    const events = some('left', 3)
    await bench.target.send(...events)
    const first = await bench.subscribe()
    assert.equal((await take(first, 3)).length, 3)
    await bench.closeOne(first)
    const again = await take(await bench.subscribe(), 3)
    assert.deepEqual(ids(again).toSorted(), ids(events).toSorted())
    assert.deepEqual(again.map(({ delivered, redelivered }) => [delivered, redelivered]), events.map(() => [2, true])) // prettier-ignore
  },
  async 'brings to another one what its reader holds too long, unless it is still at work'(bench) {
    const [held, worked] = some('held', 2) as [OutgoingEvent, OutgoingEvent]
    await bench.target.send(held, worked)
    const first = await bench.subscribe()
    const deliveries = await take(first, 2)
    const mine = deliveries.find(({ id }) => id === worked.id) as Delivery
    const working = setInterval(() => void first.extend?.([mine]), 200)
    try {
      const second = await bench.subscribe()
      const again = await take(second, 1)
      assert.deepEqual(ids(again), [held.id])
      assert.ok((again[0]?.delivered ?? 0) >= 2)
      await second.ack(again)
      assert.deepEqual(ids(await take(second, 1, 2_500)), [])
      await first.ack([mine])
    } finally {
      clearInterval(working)
    }
  },
  async 'brings again what was given back, not before its time'(bench) {
    await bench.target.send(eventFor('back', 1), eventFor('now', 1))
    const subscription = await bench.subscribe()
    const deliveries = await take(subscription, 2)
    const since = performance.now()
    const late = deliveries.filter(({ aggregate }) => aggregate === 'back')
    await subscription.giveBack(late, { delayMs: 600 })
    await subscription.giveBack(deliveries.filter(({ aggregate }) => aggregate === 'now'), { delayMs: 0 }) // prettier-ignore
    const [now] = await take(subscription, 1)
    assert.equal(now?.aggregate, 'now')
    assert.ok(performance.now() - since < 600)
    const [again] = await take(subscription, 1)
    assert.deepEqual([again?.aggregate, again?.delivered], ['back', 2])
    assert.ok(performance.now() - since >= 590, `after ${performance.now() - since} ms`)
    await subscription.ack([now, again] as Delivery[])
  },
  async 'keeps a delay that is longer than it holds a delivery'(bench) {
    await bench.target.send(eventFor('long', 1))
    const subscription = await bench.subscribe()
    await subscription.giveBack(await take(subscription, 1), { delayMs: 2_200 })
    const since = performance.now()
    const [again] = await take(subscription, 1)
    assert.equal(again?.delivered, 2)
    assert.ok(performance.now() - since >= 2_100, `after ${performance.now() - since} ms`)
  },
  async 'gives each event to one of those who share a name, and to everybody else'(bench) {
    const events = some('shared', 40)
    await bench.target.send(...events)
    const readers = await Promise.all([bench.subscribe('many'), bench.subscribe('many'), bench.subscribe('other')])
    const took = await Promise.all(readers.map((reader) => take(reader, 40, 700)))
    const [one, two, other] = took as [Delivery[], Delivery[], Delivery[]]
    assert.deepEqual(ids([...one, ...two]).toSorted(), ids(events).toSorted())
    assert.deepEqual(ids(other), ids(events))
    await Promise.all(readers.map((reader, at) => reader.ack(took[at] ?? [])))
  },
  async 'delivers what cannot be read, under an id that stays'(bench) {
    await bench.target.sendText('{"no": "event"')
    const subscription = await bench.subscribe()
    const [first] = await take(subscription, 1)
    assert.ok(first?.problem)
    await subscription.giveBack([first], { delayMs: 0 })
    const [again] = await take(subscription, 1)
    assert.deepEqual([again?.id, again?.source, again?.body], [first.id, first.source, '{"no": "event"'])
  },
  async [OUTAGE](bench) {
    await bench.target.send(eventFor('before', 1))
    const subscription = await bench.subscribe()
    await subscription.ack(await take(subscription, 1))
    const { signal } = new AbortController()
    await bench.target.outage.begin()
    try {
      const began = performance.now()
      const none = await subscription.receive({ max: 1, waitMs: 1_000, signal }).catch(() => [])
      assert.deepEqual(none, [])
      assert.ok(performance.now() - began < 4_000)
    } finally {
      await bench.target.outage.end()
    }
    const event = eventFor('afterwards', 1)
    await bench.target.send(event)
    let seen: Delivery[] = []
    for (let i = 0; i < 30 && seen.length === 0; i++) {
      seen = await take(subscription, 1, 1_000).catch(() => [])
      if (seen.length === 0) await sleep(100)
    }
    assert.deepEqual(ids(seen), [event.id])
    await subscription.ack(seen)
  },
}

export function sourceCases(
  open: () => Promise<SourceTarget>,
): readonly { readonly name: string; readonly takesServerAway: boolean; run(): Promise<void> }[] {
  return Object.entries(CASES).map(([name, body]) => ({
    name,
    takesServerAway: name === OUTAGE,
    async run() {
      const bench = new Bench(await open())
      try {
        await body(bench)
      } finally {
        await bench.closeAll()
        await bench.target.close()
      }
    },
  }))
}
