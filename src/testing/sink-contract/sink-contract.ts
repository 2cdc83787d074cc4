import assert from 'node:assert/strict'
import type { OutgoingEvent, Verdict } from '../../sink/sink.ts'
import { eventFor, type Received, type SinkTarget } from './target.ts'

type CaseBody = (target: SinkTarget) => Promise<void>

const KNOWN_PROOFS = ['accepted', 'flushed', 'replicated', 'handled']
const LARGE = 200 * 1024

function send(target: SinkTarget, events: readonly OutgoingEvent[]): Promise<readonly Verdict[]> {
  return target.sink.send(events, { signal: new AbortController().signal })
}

async function sendAll(target: SinkTarget, events: readonly OutgoingEvent[]): Promise<void> {
  const verdicts = await send(target, events)
  assert.deepEqual(
    verdicts.map(({ kind }) => kind),
    events.map(() => 'sent'),
  )
}

async function arrived(target: SinkTarget, among: readonly OutgoingEvent[]): Promise<readonly Received[]> {
  const ids = new Set(among.map(({ id }) => id))
  return (await target.received()).filter(({ id }) => ids.has(id))
}

const CASES: Readonly<Record<string, CaseBody>> = {
  async 'declares its properties'({ sink }) {
    assert.ok(sink.name.length > 0 && sink.name.length <= 200)
    assert.ok(KNOWN_PROOFS.includes(sink.proves), sink.proves)
    assert.ok(sink.dedupes === false || sink.dedupes === 'forever' || /^\d+(ms|s|m|h|d)$/.test(sink.dedupes))
    assert.equal(typeof sink.orders, 'boolean')
  },
  async 'an event with the verdict sent has arrived, with every attribute'(target) {
    const event = eventFor('attributes', 1, { text: 'żółw 🐢', list: [1, null, true], nested: { deep: { deeper: 1 } } })
    await sendAll(target, [event])
    const [seen] = await arrived(target, [event])
    const { id, source, type, subject, time, data, brokerId, traceparent } = event
    assert.deepEqual({ ...seen }, { id, source, type, subject, time, data, brokerId, traceparent })
  },
  async 'gives one verdict per event, in order'(target) {
    const events = Array.from({ length: 50 }, (_, i) => eventFor(`many${i}`, 1))
    await sendAll(target, events)
    assert.equal(new Set((await arrived(target, events)).map(({ id }) => id)).size, 50)
  },
  async 'keeps the order of an aggregate, in one call or in several'(target) {
    const events = Array.from({ length: 30 }, (_, i) => eventFor('ordered', i + 1))
    if (target.sink.orders) await sendAll(target, events)
    else for (const event of events) await sendAll(target, [event])
    const seen = await arrived(target, events)
    assert.deepEqual(
      seen.map(({ id }) => id),
      events.map(({ id }) => id),
    )
  },
  async 'accepts a large event'(target) {
    const event = eventFor('large', 1, { text: 'x'.repeat(LARGE) })
    await sendAll(target, [event])
    assert.deepEqual((await arrived(target, [event]))[0]?.data, event.data)
  },
  async 'accepts the same event a second time'(target) {
    const event = eventFor('again', 1)
    await sendAll(target, [event])
    await sendAll(target, [event])
    const seen = await arrived(target, [event])
    assert.equal(seen.length, target.sink.dedupes === false ? 2 : 1)
  },
  async 'an event that is sent again after a promotion of the database arrives again'(target) {
    const event = eventFor('promoted', 1)
    await sendAll(target, [event])
    await sendAll(target, [{ ...event, deduplicationId: `${event.deduplicationId}:t2` }])
    assert.equal((await arrived(target, [event])).length, 2)
  },
  async 'a deliberate resend arrives again, because it has its own broker id'(target) {
    const event = eventFor('resend', 1)
    await sendAll(target, [event])
    const resent = `${event.brokerId}:r1`
    await sendAll(target, [{ ...event, brokerId: resent, deduplicationId: resent }])
    const seen = await arrived(target, [event])
    assert.deepEqual(
      seen.map(({ id, brokerId }) => ({ id, brokerId })),
      [event.brokerId, `${event.brokerId}:r1`].map((brokerId) => ({ id: event.id, brokerId })),
    )
  },
  async 'serves two callers at a time'(target) {
    const calls = ['left', 'right'].map((side) => Array.from({ length: 20 }, (_, i) => eventFor(`${side}${i}`, 1)))
    await Promise.all(calls.map((events) => sendAll(target, events)))
    assert.equal((await arrived(target, calls.flat())).length, 40)
  },
  async 'rejects an oversized event for good, holds back its successors, and sends the others'(target) {
    if (target.tooLarge === undefined) return
    const large = eventFor('bad', 1, { text: 'x'.repeat(target.tooLarge) })
    const events = [eventFor('fine', 1), large, eventFor('fine', 2), eventFor('bad', 2)]
    // The relay never gives two events of one aggregate at once to a sink that does not keep their order.
    const verdicts = await send(target, target.sink.orders ? events : [events[0]!, large])
    assert.deepEqual(
      verdicts.map((verdict) => (verdict.kind === 'sent' ? 'sent' : verdict.retryable)),
      target.sink.orders
        ? ['sent', false, 'sent', verdicts[3]?.kind === 'failed' && verdicts[3].retryable]
        : ['sent', false],
    )
    const seen = new Set((await arrived(target, events)).map(({ id }) => id))
    assert.ok(seen.has(events[0]!.id) && !seen.has(large.id) && !seen.has(events[3]!.id))
    await sendAll(target, [eventFor('fine', 3)])
  },
  async 'accepts an empty call'(target) {
    assert.deepEqual(await send(target, []), [])
  },
  async 'reports that the broker is down, and sends when it is back'(target) {
    if (!target.outage) return
    const event = eventFor('outage', 1)
    await target.outage.begin()
    try {
      const verdicts = await send(target, [event]).catch(() => null)
      for (const verdict of verdicts ?? []) assert.ok(verdict.kind === 'failed' && verdict.retryable)
    } finally {
      await target.outage.end()
    }
    await sendAll(target, [event])
    assert.ok((await arrived(target, [event])).length > 0)
  },
}

/** The names of the cases, for test runners that collect tests before a server is available. */
export const sinkContractNames: readonly string[] = Object.keys(CASES)

/**
 * The tests that every sink must pass, run against the sink and its real server. They work with any test runner.
 *
 * @example
 * for (const { name, run } of sinkContract(openTarget)) test(name, run)
 */
export function sinkContract(
  open: () => Promise<SinkTarget>,
): readonly { readonly name: string; run(): Promise<void> }[] {
  return Object.entries(CASES).map(([name, body]) => ({
    name,
    async run() {
      const target = await open()
      try {
        await target.sink.open?.()
        await body(target)
      } finally {
        await target.sink.close?.()
        await target.close()
      }
    },
  }))
}
