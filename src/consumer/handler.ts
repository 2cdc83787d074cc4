import type { Arrival } from './inbox/arrival.ts'
import { readable } from '../platform/readable-error.ts'
import { decoded } from './decode.ts'
import type { Events } from '../outbox/event.ts'
import type { Delivery } from '../source/source.ts'
import type { EventRow } from '../store/store.ts'
import { inSpan } from '../observe/tracing.ts'
import { traceOf } from './message-spans.ts'
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
  settings: ConsumerSettings,
  transaction: SharedTransaction,
  arrival: Arrival,
): Promise<readonly EventRow[]> {
  const { name, from, handlers, deadlineMs } = settings
  const { delivery, item, attempts, counted, span } = arrival
  const handler = handlers.get(delivery.type)
  if (!handler) return []
  const route = `${name} ${delivery.type}`
  const publisher = publisherOf(core, { claim: item, trace: traceOf(arrival), span }, { life: undefined })
  const enclosing = new Enclosing({ id: item.id, route, transaction, publisher, outer: undefined })
  const watched = core.guard?.watch({ route, claim: item }, transaction.session)
  arrival.began = true
  try {
    await watched?.started
    const run = { attempt: counted ? attempts : attempts + 1, running: core.running }
    const { op, limit } = startHandler(core, enclosing, { key: item.message, scope: name, deadlineMs }, run)
    const call = (): Promise<void> =>
      limit.of(core.enclosing.run(enclosing, called, handler, from.events, delivery, op))
    await measured(core, settings, delivery.type, () =>
      span ? span.run(() => inSpan(span, { kind: 'handler' }, call)) : call(),
    )
    const published = await withinMs(core.clock, deadlineMs, publisher.take())
    await watched?.ended(COMPLETE, published.length)
    return published
  } finally {
    enclosing.end()
    watched?.stop()
  }
}

/** Reports how long a handler took. */
export async function measured<Tx, T>(
  { clock, settings: { observe } }: Core<Tx>,
  { name: consumer, from: { system } }: ConsumerSettings,
  type: string,
  run: () => Promise<T>,
): Promise<T> {
  const startedAt = clock.now()
  let failed = true
  try {
    const made = await run()
    failed = false
    return made
  } finally {
    observe({ kind: 'handled', consumer, system, type, durationMs: clock.now() - startedAt, failed })
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
