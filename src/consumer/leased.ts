import { isOnceError, onceError } from '../errors.ts'
import type { Arrival } from './inbox/arrival.ts'
import { fingerprintOfNull } from '../key/fingerprint.ts'
import type { Events } from '../outbox/event.ts'
import { messageScope } from '../store/namespaced/names.ts'
import type { InboxState } from '../store/inbox.ts'
import type { Claim, Session } from '../store/store.ts'
import { answerOfValue } from '../operation/codec.ts'
import { fatesOfFailure, HandlerFailed, type SettleRedriven } from './batch.ts'
import type { Fate, Fates } from './fate.ts'
import { called, measured } from './handler.ts'
import { inMessageSpans, traceOf } from './message-spans.ts'
import type { Handler } from './options.ts'
import type { ConsumerParts } from './parts.ts'
import { openEnclosing } from '../operation/enclosing.ts'
import { LeasedBlame } from '../operation/leased-blame.ts'
import { attemptLeased, type LeasedProduce } from '../operation/leased.ts'
import { requestOf, resumable } from '../operation/request.ts'
import type { Committed, LeasedOperation, Operation } from '../operation/types.ts'

/** Another attempt entered the inbox first: this one must not commit. */
class Overtaken extends Error {}

/** The message was set aside before this attempt had its lease. */
class SetAside extends Error {
  readonly state: Exclude<InboxState, 'taken'>
  constructor(state: Exclude<InboxState, 'taken'>) {
    super(state)
    this.state = state
  }
}

/**
 * Runs a message whose handler calls the outside world. Its steps are recorded under a separate operation, which a
 * later attempt takes over. The inbox row is the last statement of the final transaction. Without transactions, the
 * operation's own record shows that the message was applied.
 */
export async function processLeased<Tx>(
  parts: ConsumerParts<Tx>,
  arrival: Arrival,
  settleRedriven?: SettleRedriven<Tx>,
): Promise<Fate> {
  const run = async (): Promise<Fates> => {
    const { span } = arrival
    const work = (): Promise<Fate> => runLeased(parts, arrival, settleRedriven)
    return new Map([[arrival, await (span ? span.run(work) : work())]])
  }
  return (await inMessageSpans(parts, [arrival], run)).get(arrival) as Fate
}

async function runLeased<Tx>(
  parts: ConsumerParts<Tx>,
  arrival: Arrival,
  settleRedriven: SettleRedriven<Tx> | undefined,
): Promise<Fate> {
  const { core, inbox, settings } = parts
  const { name } = settings
  const { item, delivery } = arrival
  try {
    const redrive = settleRedriven !== undefined
    const [state = 'taken'] = await inbox.look({ consumer: name, items: [item], redrive })
    if (state !== 'taken') return { kind: state }
    const handler = settings.handlers.get(delivery.type)
    const request = requestOf(core.settings, {
      scope: messageScope(name),
      key: item.id,
      fingerprint: fingerprintOfNull(),
      route: `${name} ${delivery.type}`,
      at: core.clock.now(),
      rerunnable: false,
      trace: traceOf(arrival),
      overrides: { deadline: `${settings.deadlineMs}ms` },
    })
    // A dead letter may be redriven for as long as the inbox remembers, so its steps must stay that long.
    const resumableForMs = Math.max(settings.rememberForMs, request.claim.replayForMs)
    const leaseMs = settings.leaseMs as number
    const claim = core.transactions ? request.claim : rememberedFor(request.claim, resumableForMs)
    const leased = { ...request, claim, span: arrival.span, leaseMs, recover: null, resumableForMs }
    const attempt = await attemptLeased(core, leased, produceOf(parts, arrival, handler, settleRedriven), () => {})
    if (attempt.kind === 'busy') return { kind: 'busy' }
    if (attempt.outcome.replayed) return { kind: 'duplicate' }
    if (!core.transactions) await settleAfter(parts, arrival, settleRedriven)
    return { kind: 'applied', witness: arrival.item.id }
  } catch (error) {
    if (error instanceof SetAside) return { kind: error.state }
    if (error instanceof Overtaken || isOnceError(error, 'ONCE_LEASE_LOST')) return { kind: 'busy' }
    return fatesOfFailure(core, [arrival], error).get(arrival) as Fate
  }
}

/** The record of an applied message is kept for as long as the consumer remembers, and leaves nothing behind. */
function rememberedFor(claim: Claim, replayForMs: number): Claim {
  return { ...resumable(claim, replayForMs), goneForMs: 0 }
}

/**
 * Without transactions, a letter is written by whoever holds the lease. So it is looked for again after a takeover. A
 * first attempt comes before every letter.
 */
async function checkSetAside<Tx>(
  { inbox, settings }: ConsumerParts<Tx>,
  { item }: Arrival,
  redrive: boolean,
): Promise<void> {
  const [state = 'taken'] = await inbox.look({ consumer: settings.name, items: [item], redrive })
  if (state === 'taken') return
  if (!redrive || state !== 'parked') throw new SetAside(state)
  throw onceError('ONCE_CONFLICT', { detail: 'the letter was settled' })
}

/** Every throw of a handler releases the lease. A stored refusal would only be replayed by a redrive. */
function produceOf<Tx>(
  parts: ConsumerParts<Tx>,
  arrival: Arrival,
  handler: Handler | undefined,
  settleRedriven: SettleRedriven<Tx> | undefined,
): LeasedProduce<Tx> {
  const { core, inbox, settings } = parts
  const { item, delivery } = arrival
  const redrive = settleRedriven !== undefined
  const isAlone = core.transactions === null
  return async ({ op, commit }) => {
    if (isAlone && (op.attempt > 1 || redrive)) await checkSetAside(parts, arrival, redrive)
    const blame = new LeasedBlame()
    let outcome: Awaited<ReturnType<typeof commit>> | undefined
    const commitWith = async <R>(make: (op: Operation<Tx, Events>) => R | Promise<R>): Promise<Committed<R>> => {
      if (outcome) throw onceError('ONCE_STEP_INVALID', { detail: 'commit was called twice' })
      let made: R | undefined
      const makeOfHandler = blame.handlers(make)
      const committing = commit(async (inner) => {
        made = await makeOfHandler(inner)
        const done = { answer: answerOfValue(undefined), fate: 'complete' } as const
        if (isAlone) return done
        // Take a turn: if a child has a savepoint open, the row would be rolled back with the child.
        const at = openEnclosing(core.enclosing)
        const session = at?.session as Session<Tx>
        const inTurn = <T>(work: () => Promise<T>): Promise<T> => (at ? at.inTurn(work) : work())
        if (!(await inTurn(async () => inbox.enter?.(session, { consumer: settings.name, item, redrive })))) {
          throw new Overtaken('applied or parked elsewhere')
        }
        if (settleRedriven) await inTurn(() => settleRedriven(session, [arrival]))
        return done
      })
      outcome = await blame.ours(committing)
      return made as Committed<R>
    }
    // Not Object.assign: it would read the lazy signal, and so create it.
    const leased = Object.create(op, {
      step: { value: blame.steps<Tx>(op), enumerable: true },
      commit: { value: commitWith, enumerable: true },
    }) as LeasedOperation<Tx, Events>
    if (handler) {
      const call = (): Promise<void> => called(handler, settings.from.events, delivery, leased)
      await measured(core, settings, delivery.type, call).catch((error: unknown) => {
        throw blame.isRaised(error, leased) ? error : new HandlerFailed(arrival, error)
      })
    } else await commitWith(() => undefined)
    if (!outcome) throw onceError('ONCE_NOT_COMMITTED')
    return { kind: 'committed', outcome }
  }
}

/** The message is applied. If the process dies here, the next delivery or the redrive's next attempt is a duplicate. */
async function settleAfter<Tx>(
  { inbox, settings }: ConsumerParts<Tx>,
  arrival: Arrival,
  settleRedriven: SettleRedriven<Tx> | undefined,
): Promise<void> {
  await settleRedriven?.(null, [arrival]).catch((cause: unknown) => {
    throw onceError('ONCE_COMMIT_UNKNOWN', { detail: 'the letter of an applied message was not settled', cause })
  })
  if (arrival.tried) await inbox.applied?.({ consumer: settings.name, ids: [arrival.item.id] }).catch(() => {})
}
