import { deriveEventId } from '../key/derive.ts'
import { Publisher, type PublishOptions } from '../outbox/publisher.ts'
import type { Produce } from './atomic.ts'
import type { Core } from './core.ts'
import type { Enclosing } from './enclosing.ts'
import { runNested } from './nested.ts'
import type { Outcome } from './outcome.ts'
import type { Request } from './request.ts'

/** `join(tx).run`: the record and the effect commit with the user's own transaction. */
export async function runJoined<Tx>(core: Core<Tx>, tx: Tx, request: Request, produce: Produce<Tx>): Promise<Outcome> {
  const session = await core.store.join(tx)
  const enclosing: Enclosing = {
    id: '',
    route: request.route,
    session,
    tx,
    publisher: null,
    outer: core.enclosing.get(),
    turn: undefined,
  }
  // Nobody here sees the user's commit, so nothing is remembered: a retry reads the record.
  return runNested(core, { session, tx, enclosing }, request, produce)
}

/** `join(tx).publish`: written at once, under the shard's lock until the user's commit. Publish last. */
export async function publishJoined<Tx>(
  core: Core<Tx>,
  tx: Tx,
  type: string,
  data: unknown,
  options?: PublishOptions,
): Promise<string> {
  const { events, namespace } = core.settings
  const publisher = new Publisher(events, namespace, (ordinal) =>
    deriveEventId({ id: core.random.uuid(), life: undefined, ordinal }),
  )
  const id = await publisher.publish(type, data, options)
  const session = await core.store.join(tx)
  await session.append(await publisher.take())
  return id
}
