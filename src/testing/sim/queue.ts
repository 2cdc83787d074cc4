import type { Delivery, PulledSource, ReceiveParams, Subscription } from '../../source/source.ts'
import { nameOf } from './outbox-plan.ts'
import type { ConsumerSettings, EventData, EventType } from './outbox-plan.ts'
import type { SimProcess } from './process.ts'
import { tagOf } from './readers.ts'
import type { Reader } from './readers.ts'
import type { Service } from './service.ts'
import { never } from './wire.ts'
import type { World } from './world.ts'

/** One message of the broker, until a consumer acknowledges it. */
interface Message {
  readonly id: string
  readonly data: EventData
  readonly previous: string | null
  delivered: number
  /** The broker does not deliver the message before this time. */
  visibleAt: number
  /** The number of the delivery that currently holds the message. Each delivery has its own number. */
  receipt: number
}

interface Held extends Delivery {
  readonly message: Message
  readonly receipt: number
}

const WAIT_MS = 120

/** The queues of a service's broker, one per consumer. Every queue receives all messages. */
export class Queues {
  private readonly world: World
  private readonly queues: ReadonlyMap<string, Queue>

  constructor(world: World, service: Service) {
    this.world = world
    this.queues = new Map(world.settings.readers.map((reader) => [reader.name, new Queue(world, service, reader)]))
  }

  get size(): number {
    let size = 0
    for (const { messages } of this.queues.values()) size += messages.size
    return size
  }

  of({ name }: Reader): Queue {
    return this.queues.get(name)!
  }

  add(id: string, data: EventData, previous: string | null): void {
    for (const [reader, queue] of this.queues) {
      this.world.outbox.sent(tagOf(reader, nameOf(data)))
      queue.add(id, data, previous)
    }
  }

  rebalance(): void {
    for (const queue of this.queues.values()) queue.rebalance()
  }
}

/**
 * The consumers' side of the broker. It delivers messages, redelivers those that were not settled in time, and loses
 * none.
 */
export class Queue {
  readonly messages: Set<Message> = new Set()
  private readonly world: World
  private readonly service: Service
  private readonly source: string
  private readonly waiting = new Set<() => void>()
  private receipts = 0

  constructor(world: World, service: Service, { source }: Reader) {
    this.world = world
    this.service = service
    this.source = source
  }

  add(id: string, data: EventData, previous: string | null): void {
    const copies = this.world.hit('brokerDuplicate', id) ? 1 + this.world.dice.below(3) : 1
    for (let n = 0; n < copies; n++) this.messages.add({ id, data, previous, delivered: 0, visibleAt: 0, receipt: 0 })
    this.ring()
  }

  /** Makes every message in delivery available to the next subscription that asks. */
  rebalance(): void {
    for (const message of this.messages) if (message.receipt !== 0) message.visibleAt = 0
    this.ring()
  }

  sourceOf(process: SimProcess, { holdsForMs, extends: extending }: ConsumerSettings): PulledSource<SimHandles> {
    return {
      kind: 'pulled',
      name: 'broker',
      redeliversFor: '1h',
      holdsFor: `${holdsForMs}ms`,
      features: { orders: false, counts: true, marksRedelivered: true, delays: true, positions: false },
      open: async () => {
        await this.travel(process, 'subscribe')
        return this.subscription(process, holdsForMs, extending)
      },
    }
  }

  private subscription(process: SimProcess, holdsForMs: number, extending: boolean): Subscription {
    const until = (): number => this.world.scheduler.time + holdsForMs
    return {
      receive: (params) => this.receive(process, params, until),
      ack: (deliveries) =>
        this.settle(process, 'ack', deliveries, (message) => {
          this.messages.delete(message)
        }),
      giveBack: (deliveries, { delayMs }) =>
        this.settle(process, 'giveBack', deliveries, (message) => {
          message.visibleAt = this.world.scheduler.time + delayMs
          message.receipt = 0
        }),
      ...(extending && {
        extend: (deliveries) =>
          this.settle(process, 'extend', deliveries, (message) => {
            message.visibleAt = until()
          }),
      }),
      // The broker redelivers unsettled messages when their time is over.
      close: () => Promise.resolve(),
    }
  }

  private async receive(process: SimProcess, params: ReceiveParams, until: () => number): Promise<readonly Delivery[]> {
    await this.travel(process, 'receive')
    if (!this.messages.size || !this.visible().length) await this.wait(process, params)
    const taken = this.world.brokers[this.service].down ? [] : this.pick(params.max, until)
    if (!process.alive) return never()
    await process.turn('receive')
    return taken
  }

  /** Picks messages in order of arrival, or in any order. */
  private pick(max: number, until: () => number): Held[] {
    const { dice, settings } = this.world
    const visible = this.visible()
    const taken: Held[] = []
    while (taken.length < max && visible.length > 0) {
      const [message] = visible.splice(settings.consumer?.reorders ? dice.below(visible.length) : 0, 1)
      if (message === undefined) break
      if (settings.consumer?.reorders) this.world.happened('brokerReorder', message.id)
      message.delivered += 1
      message.receipt = ++this.receipts
      message.visibleAt = until()
      taken.push(deliveryOf(message, this.source, settings.consumer?.bytes ?? 0))
    }
    return taken
  }

  private visible(): Message[] {
    const { time } = this.world.scheduler
    return [...this.messages].filter(({ visibleAt }) => visibleAt <= time)
  }

  private async settle(
    process: SimProcess,
    label: string,
    deliveries: readonly Delivery[],
    change: (message: Message) => void,
  ): Promise<void> {
    await this.travel(process, label)
    if (this.world.hit('ackLost', label)) throw new Error('the acknowledgement was lost')
    for (const { message, receipt } of deliveries as readonly Held[]) {
      // A later delivery holds the message by now, so a late settlement changes nothing.
      if (message.receipt === receipt) change(message)
    }
    if (!process.alive) return never()
    await process.turn(label)
    if (this.world.hit('ackLost', label)) throw new Error('the reply was lost')
  }

  private async travel(process: SimProcess, label: string): Promise<void> {
    await process.turn(label)
    if (!process.alive) return never()
    await this.world.scheduler.turn(this.world.server)
  }

  private wait(process: SimProcess, { waitMs, signal }: ReceiveParams): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        cancel()
        this.waiting.delete(end)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const cancel = this.world.scheduler.after(process, Math.min(waitMs, WAIT_MS), end)
      this.waiting.add(end)
      if (signal.aborted) end()
      else signal.addEventListener('abort', end, { once: true })
    })
  }

  private ring(): void {
    for (const end of this.waiting) this.world.scheduler.post(this.world.server, end)
  }
}

export type SimHandles = Readonly<Record<EventType, EventData>>

function deliveryOf(message: Message, source: string, bytes: number): Held {
  const { id, data, previous, delivered, receipt } = message
  return {
    id,
    source,
    type: data.type,
    aggregate: data.aggregate,
    previous,
    event: data,
    body: JSON.stringify(data),
    headers: {},
    delivered,
    redelivered: delivered > 1,
    bytes,
    traceparent: undefined,
    message,
    receipt,
  }
}
