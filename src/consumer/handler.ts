import type { Arrival } from './inbox/arrival.ts'
import { readable } from '../platform/readable-error.ts'
import { decoded } from './decode.ts'
import type { Events } from '../outbox/event.ts'
import type { Delivery } from '../source/source.ts'
import type { EventRow } from '../store/store.ts'
import type { ConsumerSettings, Handler } from './options.ts'
import { publisherOf, startHandler } from '../operation/atomic.ts'
import type { Core } from '../operation/core.ts'
import { withinMs } from '../operation/deadline.ts'
import { Enclosing } from '../operation/enclosing.ts'
import type { SharedTransaction } from '../operation/shared-transaction.ts'

const COMPLETE = { fate: 'complete', answer: { status: 200 } } as const

/**
 * Runs one message's handler inside an open transaction, and returns its events. The caller ends the transaction in
 * every case.
 */
export async function handle<Tx>(
  core: Core<Tx>,
  { name, from, handlers, deadlineMs }: ConsumerSettings,
  transaction: SharedTransaction,
  { delivery, item, attempts, counted }: Arrival,
): Promise<readonly EventRow[]> {
  const handler = handlers.get(delivery.type)
  if (!handler) return []
  const route = `${name} ${delivery.type}`
  const publisher = publisherOf(core, { claim: item }, { life: undefined })
  const enclosing = new Enclosing({ id: item.id, route, transaction, publisher, outer: undefined })
  const watched = core.guard?.watch({ route, claim: item }, transaction.session)
  try {
    await watched?.started
    const run = { attempt: counted ? attempts : attempts + 1, running: core.running }
    const { op, limit } = startHandler(core, enclosing, { key: item.message, scope: name, deadlineMs }, run)
    await limit.of(core.enclosing.run(enclosing, called, handler, from.events, delivery, op))
    const published = await withinMs(core.clock, deadlineMs, publisher.take())
    await watched?.ended(COMPLETE, published.length)
    return published
  } finally {
    enclosing.end()
    watched?.stop()
  }
}

/** Makes sure that a thrown error can be read, because later code must decide who is at fault. */
export async function called(
  handler: Handler,
  events: Events | undefined,
  delivery: Delivery,
  op: unknown,
): Promise<void> {
  try {
    const { event } = delivery
    delivery.renew?.()
    await handler(await decoded(events, event), op as never)
  } catch (error) {
    throw readable(error)
  }
}
