import type { Toy } from './toy.ts'

/** A broker with one queue in this process: `put`, `take`, `settle` and `free`. */
export const toyBroker: Toy = {
  subpath: `  toymq: { kind: 'broker', peers: { toymq: '>=1' }, kB: 6, page: 'docs/brokers.md' },`,
  rows: [],
  page: 'docs/brokers.md',
  proof: { file: 'test/broker/toymq.test.ts' },
  files: {
    'src/entry/toymq.ts': `export { toySink } from '../broker/toymq/sink.ts'
export { toySource } from '../broker/toymq/source.ts'
export type { ToyQueue } from '../broker/toymq/client.ts'
`,
    'src/broker/toymq/client.ts': `export interface ToyMessage {
  readonly number: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly delivered: number
}
export interface ToyQueue {
  put(body: string, headers: Readonly<Record<string, string>>): Promise<void>
  take(max: number, waitMs: number, signal: AbortSignal): Promise<readonly ToyMessage[]>
  settle(numbers: readonly number[]): Promise<void>
  free(numbers: readonly number[], delayMs: number): Promise<void>
}
`,
    'src/broker/toymq/sink.ts': `import { cloudEventJson, SENT, type Sink } from '../../sink/sink.ts'
import type { ToyQueue } from './client.ts'

export function toySink(queue: ToyQueue): Sink {
  return {
    name: 'toymq',
    proves: 'accepted',
    dedupes: false,
    orders: true,
    async send(events, { signal }) {
      for (const event of events) {
        signal.throwIfAborted()
        await queue.put(cloudEventJson(event), { id: event.deduplicationId })
      }
      return events.map(() => SENT)
    },
  }
}
`,
    'src/broker/toymq/source.ts': `import type { Events } from '../../outbox/event.ts'
import { EnvelopeDelivery } from '../../source/envelope.ts'
import type { Delivery, EventsOf, PulledSource } from '../../source/source.ts'
import type { ToyMessage, ToyQueue } from './client.ts'

class ToyDelivery extends EnvelopeDelivery {
  readonly number: number
  constructor({ number, body, delivered }: ToyMessage) {
    const place = \`toymq \${number}\`
    super({ body, headers: {}, place, source: 'toymq' }, { delivered, redelivered: delivered > 1 })
    this.number = number
  }
}

const numbersOf = (deliveries: readonly Delivery[]): number[] => deliveries.map((delivery) => (delivery as ToyDelivery).number)

export function toySource<E extends Events>(queue: ToyQueue, _options: { readonly events: E }): PulledSource<EventsOf<E>> {
  return {
    name: 'toymq',
    kind: 'pulled',
    redeliversFor: 'forever',
    holdsFor: 'connection',
    features: { orders: false, counts: true, marksRedelivered: true, delays: true, positions: false },
    async open() {
      const held = new Set<number>()
      const settled = (deliveries: readonly Delivery[]): number[] => {
        const numbers = numbersOf(deliveries)
        for (const number of numbers) held.delete(number)
        return numbers
      }
      return {
        async receive({ max, waitMs, signal }) {
          const taken = await queue.take(max, waitMs, signal)
          for (const { number } of taken) held.add(number)
          return taken.map((message) => new ToyDelivery(message))
        },
        ack: async (deliveries) => queue.settle(settled(deliveries)),
        giveBack: async (deliveries, { delayMs }) => queue.free(settled(deliveries), delayMs),
        close: () => queue.free([...held], 0),
      }
    },
  }
}
`,
    'test/broker/toymq.test.ts': `import { describe, expect, it } from 'vitest'
import { event } from '../../src/index.ts'
import { toySink, toySource, type ToyQueue } from '../../src/entry/toymq.ts'
import { sinkContract } from '../../src/testing/sink-contract/index.ts'
import { sourceContract } from '../../src/testing/source-contract/index.ts'
import { receivedFrom } from './support/broker.ts'

interface Kept {
  number: number
  body: string
  headers: Readonly<Record<string, string>>
  delivered: number
  from: number
}

function open(): { queue: ToyQueue; kept: Kept[] } {
  const kept: Kept[] = []
  const ready = (): Kept[] => kept.filter(({ from }) => from <= Date.now())
  const queue: ToyQueue = {
    put: async (body, headers) => void kept.push({ number: kept.length, body, headers, delivered: 0, from: 0 }),
    async take(max, waitMs, signal) {
      const until = Date.now() + waitMs
      while (ready().length === 0 && Date.now() < until && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5))
      return ready().slice(0, max).map((message) => Object.assign(message, { delivered: message.delivered + 1, from: Infinity }))
    },
    settle: async () => {},
    free: async (numbers, delayMs) => {
      for (const number of numbers) kept[number]!.from = Date.now() + delayMs
    },
  }
  return { queue, kept }
}

describe('toymq', () => {
  const sinks = sinkContract(async () => {
    const { queue, kept } = open()
    const received = async () => kept.map(({ body, headers }) => receivedFrom(body, headers['id'] ?? ''))
    return { sink: toySink(queue), received, close: async () => {} }
  })
  const sources = sourceContract(async () => {
    const { queue } = open()
    return {
      source: toySource(queue, { events: { 'step.made': event<unknown>(() => 'a') } }),
      async publish(...messages) {
        for (const { id, aggregate, data } of messages) {
          const said = { specversion: '1.0', id, type: 'step.made', source: 'toymq', subject: aggregate, data }
          await queue.put(JSON.stringify(said), {})
        }
      },
      publishText: (text) => queue.put(text, {}),
      close: async () => {},
    }
  })
  for (const { name, run } of sinks) it(\`sink: \${name}\`, () => expect(run()).resolves.toBeUndefined())
  for (const { name, run } of sources) it(\`source: \${name}\`, () => expect(run()).resolves.toBeUndefined())
})
`,
  },
}
