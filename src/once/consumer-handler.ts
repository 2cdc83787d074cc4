import { deriveEventId } from '../key/derive.ts'
import type { Arrival } from '../inbox/arrival.ts'
import { Publisher } from '../outbox/publisher.ts'
import type { EventRow, Session } from '../store/store.ts'
import type { ConsumerSettings } from './consumer-options.ts'
import type { Core } from './core.ts'
import { LazySignal, withDeadline } from './deadline.ts'
import type { Enclosing } from './enclosing.ts'
import { AtomicOperation } from './operation.ts'

const COMPLETE = { fate: 'complete', answer: { status: 200 } } as const

/** Runs one message's handler inside an open transaction, and answers with what it published. Whoever opened it ends it, whatever happens here. */
export async function handle<Tx>(
  core: Core<Tx>,
  { name, handlers, deadlineMs }: ConsumerSettings,
  session: Session<Tx>,
  { delivery, item, attempts, counted }: Arrival,
): Promise<readonly EventRow[]> {
  const handler = handlers.get(delivery.type)
  if (!handler) return []
  const route = `${name} ${delivery.type}`
  const revocable = session.revocable()
  const { events, namespace } = core.settings
  const publisher = new Publisher(events, namespace, (ordinal) =>
    deriveEventId({ id: item.id, life: undefined, ordinal }),
  )
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
  const enclosing: Enclosing = {
    id: item.id,
    route,
    session,
    tx: revocable.tx,
    publisher,
    outer: undefined,
    turn: undefined,
  }
  const watched = core.guard?.watch({ route, claim: item }, session)
  try {
    await watched?.started
    await withDeadline(core.clock, deadlineMs, signal, () =>
      core.enclosing.run(enclosing, () => Promise.resolve(handler(delivery.event, op as never))),
    )
    op.end()
    revocable.revoke()
    const published = await publisher.take()
    await watched?.ended(COMPLETE, published.length)
    return published
  } finally {
    op.end()
    revocable.revoke()
    watched?.stop()
  }
}
