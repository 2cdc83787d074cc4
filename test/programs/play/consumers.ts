import type { Made, Shop, Tx } from '../bed.ts'
import type { ConsumerPlan, Message } from '../program.ts'
import type { InTransaction, PlayedHandlers } from './handlers.ts'
import type { Attempts, Here, Play } from './here.ts'
import { messageSource } from './message-source.ts'
import { telling } from './told.ts'

/** Consumers of a program: each drain is a consumer that starts, and goes on until there is nothing left. */
export class PlayedConsumers {
  readonly #play: Play
  readonly #handlers: PlayedHandlers
  readonly #attempts: Attempts
  readonly #sent = new Map<number, Promise<void>>()

  constructor(play: Play, handlers: PlayedHandlers, attempts: Attempts) {
    this.#play = play
    this.#handlers = handlers
    this.#attempts = attempts
  }

  async drain(index: number): Promise<void> {
    const { program, name, place, trace } = this.#play
    const plan = program.consumers[index]
    if (!plan) return
    const drain = trace.add({ is: 'drain', consumer: index })
    let told: () => void = () => {}
    const ended = new Promise<void>((resolve) => (told = resolve))
    const { attempts, pipelined, commit } = plan
    const once = plan.from === 'outbox' ? place.alone : place.instances[plan.via]
    const handler = (id: number, op: never): Promise<unknown> => {
      const attempt = this.#attempts.next(`message ${index} ${id}`)
      const whose = { call: null, message: { drain, consumer: index, id } }
      const from: Omit<Here, 'exec'> = { own: null, attempt, calm: false, ended, pending: null }
      if (commit) return this.#handlers.leased({ body: plan.body, commit, answer: 'plain' }, op, whose, from)
      const { tx, publish } = op as InTransaction
      return this.#handlers.atomic(plan.body, 'plain', whose, { ...from, tx, publish })
    }
    const options = { attempts, pipelined, ...(commit && { lease: '30s' as const }) }
    const onEvent = {
      sent: async ({ data }: { data: Made }, op: never) => {
        if (data.program.startsWith(`${name}.`)) return handler(Number(data.uid), op)
        // Left behind by an earlier program.
        return commit ? (op as { commit: Tx }).commit(async () => undefined) : undefined
      },
    }
    const acked = (id: number): unknown => trace.add({ is: 'acked', consumer: index, id })
    const onMessage = { made: ({ id }: Message, op: never) => handler(id, op) }
    await telling(
      async () => {
        if (plan.from === 'outbox') await this.#sendOnce(plan, index, once)
        const consumer =
          plan.from === 'outbox'
            ? once.consumer(`c${index}`, { ...options, from: once.outbox }, onEvent as never)
            : once.consumer(
                `c${index}`,
                { ...options, from: messageSource(plan.messages, { program: name, consumer: index, acked }) },
                onMessage as never,
              )
        await consumer.drain()
      },
      (heard) => {
        trace.add({ is: 'drained', drain, heard })
        told()
      },
    )
  }

  /** In one transaction, in their order. */
  #sendOnce({ messages }: ConsumerPlan, consumer: number, once: Shop): Promise<void> {
    let sending = this.#sent.get(consumer)
    if (!sending) this.#sent.set(consumer, (sending = this.#send(messages, consumer, once)))
    return sending
  }

  async #send(messages: readonly Message[], consumer: number, once: Shop): Promise<void> {
    const { name, place, trace } = this.#play
    const events = await place.own(async (tx) => {
      const sent: [number, string][] = []
      for (const { id, aggregate } of messages) {
        const data = { program: `${name}.${aggregate ?? id}`, uid: String(id) }
        sent.push([id, await once.join(tx).publish('sent', data)])
      }
      return sent
    })
    for (const [id, event] of events) trace.add({ is: 'sent', consumer, id, event })
  }
}
