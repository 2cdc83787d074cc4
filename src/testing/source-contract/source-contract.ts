import assert from 'node:assert/strict'
import type { Delivery, PulledSource, ReceivedEvent, Subscription } from '../../source/source.ts'
import type { MemoryMessage } from './memory-broker.ts'
import { take as takeWithin } from './take.ts'

/** A pulled source on its real server, initially empty, and a way to publish to it. */
export interface SourceTarget {
  readonly source: PulledSource<unknown>
  /** Publishes events of type 'step.made' in this order. */
  publish(...messages: readonly MemoryMessage[]): Promise<void> | void
  /** Publishes a message that is not an event. Leave this out if the source cannot hold such a message. */
  readonly publishText?: (text: string) => Promise<void> | void
  close(): Promise<void>
}

const WAIT_MS = 10_000
const QUIET_MS = 400

class Reader {
  readonly warnings: unknown[] = []
  readonly #source: PulledSource<unknown>
  readonly #stop = new AbortController()
  readonly #open: Subscription[] = []

  constructor(source: PulledSource<unknown>) {
    this.#source = source
  }

  async subscribe(): Promise<Subscription> {
    const subscription = await this.#source.open({
      consumer: 'contract',
      signal: this.#stop.signal,
      prefetch: 100,
      positions: { read: () => Promise.resolve(new Map()) },
      warn: (error) => void this.warnings.push(error),
      advise: () => {},
    })
    this.#open.push(subscription)
    return subscription
  }

  async end(subscription: Subscription): Promise<void> {
    this.#open.splice(this.#open.indexOf(subscription), 1)
    await subscription.close()
  }

  async close(): Promise<void> {
    for (const subscription of this.#open.splice(0)) await subscription.close()
    this.#stop.abort()
  }
}

const take = (from: Subscription, count: number, waitMs = WAIT_MS): Promise<Delivery[]> =>
  takeWithin(from, count, waitMs)
const idsOf = (deliveries: readonly Delivery[]): string[] => deliveries.map(({ id }) => id)
let serial = 0
/** The ids are UUIDs, because some sources store them in a column of that type. */
function messages(count: number, aggregate = 'a'): MemoryMessage[] {
  return Array.from({ length: count }, (_, n) => {
    const id = `00000000-0000-4000-8000-${String(++serial).padStart(12, '0')}`
    return { id, aggregate, data: { aggregate, n } }
  })
}

type Body = (target: SourceTarget, reader: Reader) => Promise<void>

const CASES: Readonly<Record<string, Body>> = {
  async 'declares its properties'({ source }) {
    assert.equal(source.kind, 'pulled')
    assert.ok(source.name !== '' && source.name.length <= 200)
    assert.match(source.redeliversFor, /^(?:forever|[\d.]+(?:ms|s|m|h|d))$/)
    assert.match(source.holdsFor, /^(?:connection|[\d.]+(?:ms|s|m|h|d))$/)
    for (const feature of ['orders', 'counts', 'marksRedelivered', 'delays', 'positions'] as const) {
      assert.equal(typeof source.features[feature], 'boolean')
    }
  },
  async 'delivers every message with all its attributes'(target, reader) {
    const sent = messages(30)
    await target.publish(...sent)
    const taken = await take(await reader.subscribe(), 30)
    assert.deepEqual(new Set(idsOf(taken)), new Set(sent.map(({ id }) => id)))
    const first = taken.find(({ id }) => id === sent[0]?.id)
    assert.ok(first)
    assert.equal(first.type, 'step.made')
    assert.equal(first.aggregate, 'a')
    assert.equal(first.problem, undefined)
    assert.equal(first.redelivered, false)
    if (target.source.features.counts) assert.equal(first.delivered, 1)
    const event = first.event as ReceivedEvent
    assert.deepEqual([event.id, event.type, event.data], [first.id, 'step.made', sent[0]?.data])
    assert.ok(first.body.length > 0)
    if (target.source.features.orders)
      assert.deepEqual(
        idsOf(taken),
        sent.map(({ id }) => id),
      )
  },
  async 'an acknowledged message is not delivered again'(target, reader) {
    await target.publish(...messages(5))
    const subscription = await reader.subscribe()
    await subscription.ack(await take(subscription, 5))
    await reader.end(subscription)
    assert.deepEqual(await take(await reader.subscribe(), 1, QUIET_MS), [])
  },
  async 'an unsettled message is delivered again, and marked as redelivered'(target, reader) {
    const sent = messages(4)
    await target.publish(...sent)
    const first = await reader.subscribe()
    const taken = await take(first, 4)
    await first.ack(taken.slice(0, 1))
    await reader.end(first)
    const again = await take(await reader.subscribe(), 3)
    assert.deepEqual(new Set(idsOf(again)), new Set(idsOf(taken.slice(1))))
  },
  async 'a returned message is delivered again, and not before its time'(target, reader) {
    await target.publish(...messages(1))
    const subscription = await reader.subscribe()
    const [delivery] = await take(subscription, 1)
    assert.ok(delivery)
    const at = performance.now()
    await subscription.giveBack([delivery], { delayMs: QUIET_MS })
    const [again] = await take(subscription, 1)
    assert.equal(again?.id, delivery.id)
    if (target.source.features.delays) assert.ok(performance.now() - at >= QUIET_MS * 0.8)
    if (target.source.features.marksRedelivered) assert.equal(again?.redelivered, true)
    if (target.source.features.counts) assert.ok((again?.delivered ?? 0) > 1)
    if (again) await subscription.ack([again])
  },
  async 'an empty source delivers nothing, and a signal ends the wait'(target, reader) {
    const subscription = await reader.subscribe()
    assert.deepEqual(await take(subscription, 1, QUIET_MS), [])
    const stop = new AbortController()
    setTimeout(() => stop.abort(), 100)
    const at = performance.now()
    assert.deepEqual(await subscription.receive({ max: 1, waitMs: WAIT_MS, signal: stop.signal }), [])
    assert.ok(performance.now() - at < WAIT_MS / 2)
  },
  async 'delivers at most as many messages as asked for'(target, reader) {
    await target.publish(...messages(10))
    const subscription = await reader.subscribe()
    const { signal } = new AbortController()
    assert.ok((await subscription.receive({ max: 3, waitMs: WAIT_MS, signal })).length <= 3)
  },
  async 'a message that is not an event is reported, not thrown'(target, reader) {
    if (!target.publishText) return
    await target.publishText('this is no event')
    const subscription = await reader.subscribe()
    const [delivery] = await take(subscription, 1)
    assert.ok(delivery?.problem)
    assert.ok(delivery.id.length > 0)
    assert.ok(delivery.body.includes('this is no event'))
    await (subscription.reject
      ? subscription.reject([delivery], { reason: 'unreadable' })
      : subscription.ack([delivery]))
    await reader.end(subscription)
    assert.deepEqual(await take(await reader.subscribe(), 1, QUIET_MS), [])
  },
}

export const sourceContractNames: readonly string[] = Object.keys(CASES)

/**
 * The tests that every pulled source must pass, run against the source and its real server. They work with any test
 * runner.
 *
 * @example
 * for (const { name, run } of sourceContract(openTarget)) test(name, run)
 */
export function sourceContract(
  open: () => Promise<SourceTarget>,
): readonly { readonly name: string; run(): Promise<void> }[] {
  return Object.entries(CASES).map(([name, body]) => ({
    name,
    async run() {
      const target = await open()
      const reader = new Reader(target.source)
      try {
        await body(target, reader)
      } finally {
        await reader.close()
        await target.close()
      }
    },
  }))
}
