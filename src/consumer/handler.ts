import { deriveEventId } from '../key/derive.ts'
import type { Arrival } from './inbox/arrival.ts'
import { readable } from '../platform/readable-error.ts'
import { decoded } from './decode.ts'
import type { Events } from '../outbox/event.ts'
import type { Delivery } from '../source/source.ts'
import { Publisher } from '../outbox/publisher.ts'
import type { EventRow, Session } from '../store/store.ts'
import type { ConsumerSettings, Handler } from './options.ts'
import type { Core } from '../operation/core.ts'
import { LazySignal, TimeLimit, withinMs } from '../operation/deadline.ts'
import { Enclosing } from '../operation/enclosing.ts'
import { handleOf } from '../operation/handle.ts'
import { AtomicOperation } from '../operation/operation.ts'
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
  const publisher = new Publisher(core.settings.events, core.namespace, (ordinal) =>
    deriveEventId({ id: item.id, life: undefined, ordinal }),
  )
  const session = transaction.session as Session<Tx>
  const enclosing = new Enclosing({ id: item.id, route, transaction, publisher, outer: undefined })
  const revocable = handleOf(core, enclosing)
  const signal = new LazySignal()
  const attempt = counted ? attempts : attempts + 1
  const op = new AtomicOperation({
    id: item.id,
    key: item.message,
    scope: name,
    attempt,
    tx: revocable.tx,
    signal,
    publisher,
  })
  enclosing.onEnd(() => {
    op.end()
    revocable.revoke()
  })
  const watched = core.guard?.watch({ route, claim: item }, session)
  try {
    await watched?.started
    await new TimeLimit(core.clock, deadlineMs, signal, enclosing, core.running).run(() =>
      core.enclosing.run(enclosing, () => called(handler, from.events, delivery, op)),
    )
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
