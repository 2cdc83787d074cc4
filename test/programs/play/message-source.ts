import type { Delivery, Source, Subscription } from '../../../src/index.ts'
import { messageOf } from '../judge/names.ts'
import type { Message } from '../program.ts'

/** What a handler is given of a message. */
export interface Arrived {
  readonly id: number
}

/** Whose messages they are. */
export interface Origin {
  readonly program: string
  readonly consumer: number
  /** Told of every message that is not delivered again. */
  acked?(id: number): void
}

type Pulled = Extract<Source<{ made: Arrived }>, { kind: 'pulled' }>

const NAME = 'fuzz'

interface Waiting {
  readonly message: Message
  at: number
  delivered: number
}

/** A broker that has nothing but one program's messages. */
export function messageSource(messages: readonly Message[], of: Origin): Pulled {
  return {
    kind: 'pulled',
    name: NAME,
    redeliversFor: '1d',
    holdsFor: 'connection',
    features: { orders: false, counts: true, marksRedelivered: true, delays: true, positions: false },
    open: async () => subscribe(messages, of),
  }
}

class QueuedDelivery implements Delivery {
  readonly waiting: Waiting
  readonly id: string
  readonly aggregate: string | null
  readonly source: string = NAME
  readonly type: string = 'made'
  readonly previous: null = null
  readonly ordered: boolean = false
  readonly headers: Readonly<Record<string, string>> = {}
  readonly traceparent: undefined = undefined

  constructor(waiting: Waiting, { program, consumer }: Origin) {
    const { id, aggregate } = waiting.message
    this.waiting = waiting
    this.id = messageOf(program, consumer, id)
    this.aggregate = aggregate === null ? null : `${program}.${aggregate}`
  }

  get event(): Arrived {
    return { id: this.waiting.message.id }
  }

  get body(): string {
    return JSON.stringify(this.event)
  }

  get delivered(): number {
    return this.waiting.delivered
  }

  get redelivered(): boolean {
    return this.waiting.delivered > 1
  }
}

function subscribe(messages: readonly Message[], of: Origin): Subscription {
  let queue: Waiting[] = messages.map((message) => ({ message, at: 0, delivered: 0 }))
  return {
    async receive({ max, waitMs, signal }) {
      const until = Date.now() + waitMs
      for (;;) {
        const now = Date.now()
        const due = queue.filter(({ at }) => at <= now).slice(0, max)
        if (due.length > 0) {
          queue = queue.filter((waiting) => !due.includes(waiting))
          return due.map((waiting) => {
            waiting.delivered++
            return new QueuedDelivery(waiting, of)
          })
        }
        if (signal.aborted || now >= until || queue.length === 0) return []
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
    },
    async ack(deliveries) {
      for (const { waiting } of deliveries as readonly QueuedDelivery[]) of.acked?.(waiting.message.id)
    },
    async giveBack(deliveries, { delayMs }) {
      for (const { waiting } of deliveries as readonly QueuedDelivery[]) {
        waiting.at = Date.now() + delayMs
        queue.push(waiting)
      }
    },
    close: async () => {},
  }
}
