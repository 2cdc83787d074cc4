import { isOnceError, onceError } from '../errors.ts'
import type { Arrival } from '../inbox/arrival.ts'
import { fingerprintInput } from '../key/fingerprint.ts'
import type { Events } from '../outbox/event.ts'
import type { Session } from '../store/store.ts'
import { answerOfValue } from './codec.ts'
import type { Fate, SettleRedriven } from './consumer-batch.ts'
import type { Handler } from './consumer-options.ts'
import type { ConsumerParts } from './consumer-parts.ts'
import { attemptLeased, type LeasedProduce } from './leased.ts'
import { requestOf } from './request.ts'
import type { Committed, LeasedOperation, Operation } from './types.ts'

/** Another attempt entered the inbox first: this one must not commit. */
class Overtaken extends Error {}

/**
 * A message whose handler calls the outside world. Its steps are recorded under an operation of its own, which a later
 * attempt takes over; the inbox row is the last statement of the final transaction.
 */
export async function processLeased<Tx>(
  parts: ConsumerParts<Tx>,
  arrival: Arrival,
  settleRedriven?: SettleRedriven<Tx>,
): Promise<Fate> {
  const { core, inbox, settings } = parts
  const { name } = settings
  const { item, delivery } = arrival
  try {
    const redrive = settleRedriven !== undefined
    const [sight = 'taken'] = await inbox.look({ consumer: name, items: [item], redrive })
    if (sight !== 'taken') return { kind: sight }
    const handler = settings.handlers.get(delivery.type)
    const request = requestOf(core.settings, {
      scope: `consumer ${name}`,
      key: item.id,
      fingerprint: fingerprintInput(null),
      route: `${name} ${delivery.type}`,
      at: core.clock.now(),
      rerunnable: false,
      overrides: { deadline: `${settings.deadlineMs}ms` },
    })
    // A dead letter may be redriven for as long as the inbox remembers: its steps must be there then.
    const resumableForMs = Math.max(settings.rememberForMs, request.claim.replayForMs)
    const leased = { ...request, leaseMs: settings.leaseMs as number, recover: null, resumableForMs }
    const attempt = await attemptLeased(core, leased, produceOf(parts, arrival, handler, settleRedriven), () => {})
    if (attempt.kind === 'busy') return { kind: 'busy' }
    return { kind: attempt.outcome.replayed ? 'duplicate' : 'applied' }
  } catch (error) {
    if (error instanceof Overtaken || isOnceError(error, 'ONCE_LEASE_LOST')) return { kind: 'busy' }
    const troubled = isOnceError(error, 'ONCE_STORE_UNAVAILABLE') || isOnceError(error, 'ONCE_COMMIT_UNKNOWN')
    return { kind: troubled ? 'troubled' : 'failed', error }
  }
}

/** Whatever a handler throws releases the lease: nothing is stored that a redrive would only replay. */
function produceOf<Tx>(
  { core, inbox, settings }: ConsumerParts<Tx>,
  arrival: Arrival,
  handler: Handler | undefined,
  settleRedriven: SettleRedriven<Tx> | undefined,
): LeasedProduce<Tx> {
  const { item, delivery } = arrival
  return async ({ op, commit }) => {
    let outcome: Awaited<ReturnType<typeof commit>> | undefined
    const commitWith = async <R>(make: (op: Operation<Tx, Events>) => R | Promise<R>): Promise<Committed<R>> => {
      if (outcome) throw onceError('ONCE_STEP_INVALID', { detail: 'commit was called twice' })
      let made: R | undefined
      outcome = await commit(async (inner) => {
        made = await make(inner)
        const session = core.enclosing.get()?.session as Session<Tx>
        const redrive = settleRedriven !== undefined
        if (!(await inbox.enter(session, { consumer: settings.name, item, redrive }))) {
          throw new Overtaken('applied or set aside elsewhere')
        }
        await settleRedriven?.(session, [arrival])
        return { answer: answerOfValue(undefined), fate: 'complete' }
      })
      return made as Committed<R>
    }
    // Not Object.assign: it would read the signal, and so build one that nobody asked for.
    const leased = Object.create(op, { commit: { value: commitWith, enumerable: true } }) as LeasedOperation<Tx, Events>
    if (handler) await handler(delivery.event, leased as never)
    else await commitWith(() => undefined)
    if (!outcome) throw onceError('ONCE_NOT_COMMITTED')
    return { kind: 'committed', outcome }
  }
}
