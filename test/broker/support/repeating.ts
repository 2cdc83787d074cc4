import type { Delivery, Subscription } from '../../../src/source/source.ts'
import type { ChaosSource } from './consumer-feeds.ts'
import { copiesOf } from './consumer-sends.ts'

/** A copy comes this much later at most. */
const LATE_MS = 300

interface Copy {
  readonly delivery: Delivery
  readonly at: number
}

/**
 * Every delivery of a source 1 to 5 times, some of them later. In random order: shuffled among those that came with them.
 * The source is told when the last copy is settled.
 */
export function repeating(source: ChaosSource, { inOrder }: { readonly inOrder: boolean }): ChaosSource {
  const features = { ...source.features, orders: inOrder }
  return { ...source, features, open: async (params) => new Repeating(await source.open(params), inOrder) }
}

class Repeating implements Subscription {
  readonly #of: Subscription
  readonly #inOrder: boolean
  #later: Copy[] = []
  /** By the original: copies that are not settled. */
  readonly #open = new Map<Delivery, number>()
  readonly #originals = new WeakMap<Delivery, Delivery>()

  constructor(of: Subscription, inOrder: boolean) {
    this.#of = of
    this.#inOrder = inOrder
  }

  async receive(params: Parameters<Subscription['receive']>[0]): Promise<Delivery[]> {
    const waitMs = this.#later.length > 0 ? Math.min(params.waitMs, 20) : params.waitMs
    const fresh = await this.#of.receive({ ...params, max: Math.ceil(params.max / 2), waitMs })
    const first: Delivery[] = []
    for (const delivery of fresh) {
      const { data } = delivery.event as { data: Parameters<typeof copiesOf>[0] }
      const copies = delivery.type === 'step.seen' ? 1 : copiesOf(data)
      this.#open.set(delivery, copies)
      first.push(this.#copyOf(delivery))
      for (let copy = 1; copy < copies; copy++) {
        this.#later.push({ delivery: this.#copyOf(delivery), at: performance.now() + Math.random() * LATE_MS })
      }
    }
    // Not taken out before the wait: what is lost meanwhile must not come, its first delivery may have been dropped.
    const came = [...first, ...this.#due(params.max - first.length)]
    return this.#inOrder ? came : shuffled(came)
  }

  async ack(deliveries: readonly Delivery[]): Promise<void> {
    const done: Delivery[] = []
    for (const delivery of deliveries) {
      const original = this.#originals.get(delivery) as Delivery
      const left = (this.#open.get(original) ?? 1) - 1
      this.#open.set(original, left)
      if (left > 0) continue
      this.#open.delete(original)
      done.push(original)
    }
    if (done.length > 0) await this.#of.ack(done)
  }

  async giveBack(deliveries: readonly Delivery[], { delayMs }: { readonly delayMs: number }): Promise<void> {
    for (const delivery of deliveries) this.#later.push({ delivery, at: performance.now() + delayMs })
  }

  onRevoked(callback: (partitions: readonly string[]) => void): void {
    this.#of.onRevoked?.((partitions) => {
      const lost = new Set(partitions)
      this.#later = this.#later.filter(({ delivery }) => !lost.has(delivery.position?.partition ?? ''))
      callback(partitions)
    })
  }

  close(): Promise<void> {
    return this.#of.close()
  }

  #due(max: number): Delivery[] {
    const now = performance.now()
    const due = this.#later.filter(({ at }) => at <= now).slice(0, max)
    if (due.length === 0) return []
    const taken = new Set(due)
    this.#later = this.#later.filter((copy) => !taken.has(copy))
    return due.map(({ delivery }) => delivery)
  }

  #copyOf(original: Delivery): Delivery {
    const { id, source, type, aggregate, previous, ordered, event, body, headers } = original
    const { delivered, redelivered, tenant, traceparent, position } = original
    const message = { id, source, type, aggregate, previous, ordered, event, body, headers }
    const copy: Delivery = { ...message, delivered, redelivered, tenant, traceparent, position }
    this.#originals.set(copy, original)
    return copy
  }
}

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
