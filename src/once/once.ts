import type { DeadLetters } from '../dead-letter/dead-letters.ts'
import type { Redrive } from '../dead-letter/redrive/types.ts'
import type { Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import { createGuard } from '../guard/create-guard.ts'
import { FINGERPRINT_VERSION } from '../key/fingerprint.ts'
import { BATCH_REQUESTS_MAX, SWEEP_LIMIT_MAX } from '../limits.ts'
import { invalid, refuseUnknown, wholeNumber } from '../options.ts'
import type { Events } from '../outbox/event.ts'
import { callerOf } from '../outbox/caller.ts'
import { createRelay, type Relay, type RelayOptions } from '../outbox/relay.ts'
import type { EventsOf, PulledSource } from '../source/source.ts'
import { attemptAtomic, rerunAtomic, type Produce } from '../operation/atomic.ts'
import { checkStatement, produceAlone, type Item } from '../operation/batch-item.ts'
import { Batcher } from '../operation/batched.ts'
import { answerOfResult, valueOf } from '../operation/codec.ts'
import { cancelJoined, cancelNow } from './cancel.ts'
import { eraseNow, type Erased, type EraseOptions } from './erase.ts'
import { checkClose, closeAll, type Closed, type CloseOptions } from './close.ts'
import { createConsumer } from '../consumer/consumer.ts'
import type { Consumer, ConsumerOptions, Handlers } from '../consumer/types.ts'
import type { Core } from '../operation/core.ts'
import { enclosingOf } from '../operation/enclosing.ts'
import { execute } from '../operation/execute.ts'
import { LeaseHeartbeat } from '../operation/lease-heartbeat.ts'
import { InFlightTable } from '../operation/in-flight.ts'
import { publishJoined, runJoined } from '../operation/join.ts'
import { answerLeased, type LeasedProduce, type LeasedRequest } from '../operation/leased.ts'
import { leasedRequestOf } from '../operation/leased-request.ts'
import { runNested, type Host } from '../operation/nested.ts'
import { checkedTransactions, lettersOf, migrateNow, namespaceOf, redrivesOf } from './namespace.ts'
import { inContext } from '../platform/context.ts'
import { ownOutbox } from './own-outbox.ts'
import { Pace } from '../operation/pace.ts'
import { parkedOf } from './parked.ts'
import type { Parked } from './parked-types.ts'
import { systemParts, type Parts } from '../operation/parts.ts'
import { leasedProduceOf, produceOf } from '../operation/produce.ts'
import { operationsOf } from './operations.ts'
import type { Operations } from './operations-types.ts'
import type { Recoverer, Sealed } from '../operation/recover.ts'
import { ReplayCache } from '../operation/replay-cache.ts'
import { destinationsOf, outboxOf, resendNow } from './resend.ts'
import { nestable, required } from '../store/lacking.ts'
import type { Cancellation } from '../store/cancellation.ts'
import type { Request } from '../operation/request.ts'
import { runRequestOf } from '../operation/run-request.ts'
import { checkSettings, refuseLease } from '../operation/settings.ts'
import { RunningHandlers } from '../operation/running.ts'
import { enterContext } from '../operation/store-context.ts'
import { healthOf, readinessOf, statusOf, type Health, type Readiness, type Status } from './status.ts'
import { Sweeper, type SweptAll } from './sweeper.ts'
import type {
  BatchedOptions,
  BatchedRun,
  Joined,
  LeasedOperation,
  OnceOptions,
  Op,
  Recovered,
  RecoverHandlers,
  Result,
  RunOptions,
  Verdict,
  WithInput,
} from '../operation/types.ts'
import type { Jsonify } from '../platform/jsonify.ts'
import type { Destinations, MigrateOptions, Once, ResendOptions } from './types.ts'

/** Creates an instance. A service needs one instance, which owns the keys of its namespace on one store. */
export function effectivelyOnce<Tx, const E extends Events = {}>(options: OnceOptions<Tx, E>): Once<Tx, E> {
  return createOnce(options, systemParts)
}

/** The same with a given clock, random numbers and other parts, for the simulator. */
export function createOnce<Tx, const E extends Events = {}>(
  options: OnceOptions<Tx, E>,
  parts: Parts,
): OnceInstance<Tx, E> {
  return new OnceInstance(options, parts)
}

const BATCHED_OPTIONS = new Set(['statement', 'respond', 'max'])
/** An operation of a batch, before it is queued. */
export type BatchItem = Pick<Item, 'request' | 'statement' | 'respond'>

export class OnceInstance<Tx, E extends Events> implements Once<Tx, E> {
  /** For the adapters of this package. Not public API. */
  readonly core: Core<Tx>
  readonly #sweeper: Sweeper<Tx>
  readonly #leaveContext: () => boolean
  #closing: Promise<Closed> | undefined

  constructor(options: OnceOptions<Tx, E>, parts: Parts) {
    const settings = checkSettings(options)
    const { store } = options
    const transactions = checkedTransactions(store, settings)
    const { context: enclosing, handles, leave } = enterContext(store)
    this.#leaveContext = leave
    this.core = {
      ...parts,
      store,
      transactions,
      namespace: namespaceOf(store, settings, parts),
      settings,
      enclosing,
      handles,
      inFlight: new InFlightTable(),
      cache: new ReplayCache(parts.clock),
      shared: store.sharedCache?.({ ...parts, observe: settings.observe }) ?? null,
      pace: new Pace(),
      heartbeat: new LeaseHeartbeat(store.leases, parts.clock, settings.observe),
      guard:
        settings.guard === 'off'
          ? null
          : createGuard({ mode: settings.guard, store, clock: parts.clock, observe: settings.observe, enclosing }),
      relays: new Set(),
      workers: new Set(),
      running: new RunningHandlers(),
      recoverers: new Map(),
      promised: null,
      closing: false,
      closed: false,
    }
    if (settings.listen) this.core.relays.add(callerOf(store, settings.observe))
    this.#sweeper = new Sweeper(this.core)
  }

  async run<R, const L extends Duration | undefined = undefined, I = unknown>(
    operation: RunOptions<L, I>,
    handler: (op: Op<L, Tx, E> & WithInput<I>) => Promise<Result<L, R>>,
  ): Promise<Jsonify<R>> {
    const { answer } = await this.outcome(operation, handler)
    return valueOf(answer) as Jsonify<R>
  }

  /** Runs an operation, and tells whether its answer is a replay. For `run` and the tools of MCP. */
  async outcome(
    operation: RunOptions<Duration | undefined>,
    handler: (op: never) => Promise<unknown>,
  ): ReturnType<typeof execute> {
    const request = runRequestOf(this.core, operation, handler)
    if (operation.lease === undefined) return this.atomic(request, produceOf(handler, operation.input))
    return this.leased(leasedRequestOf(this.core, operation, request), leasedProduceOf(handler, operation.input))
  }

  /** Runs an atomic operation with any kind of answer, for `run` and the HTTP adapters. */
  atomic(request: Request, produce: Produce<Tx>): ReturnType<typeof execute> {
    const { core } = this
    const outer = enclosingOf(core.enclosing)
    if (outer?.transaction) return runNested(core, outer as Host, request, produce)
    const outcome = execute(core, request, produce, request.rerunnable ? rerunAtomic : attemptAtomic)
    return outer ? outer.track(outcome) : outcome
  }

  leased(request: LeasedRequest, produce: LeasedProduce<Tx>): ReturnType<typeof execute> {
    const { core } = this
    const outer = enclosingOf(core.enclosing)
    if (outer?.transaction) throw onceError('ONCE_NESTED_LEASE')
    const outcome = execute(core, request, produce, answerLeased)
    return outer ? outer.track(outcome) : outcome
  }

  join(tx: Tx): Joined<Tx, E> {
    const { core } = this
    return {
      run: async (operation, handler) => {
        if (core.closed) throw onceError('ONCE_CLOSED')
        const request = runRequestOf(this.core, operation, handler)
        refuseLease(operation, 'join()')
        const outcome = await runJoined(core, tx, request, produceOf(handler, operation.input))
        return valueOf(outcome.answer) as never
      },
      publish: (type, data, options) => publishJoined(core, tx, type, data, options),
      cancel: (id) => cancelJoined(core, tx, id),
    }
  }

  batched<I, R>(options: BatchedOptions<I, R, E>): (operation: BatchedRun<I>) => Promise<Jsonify<R>> {
    refuseUnknown(options, BATCHED_OPTIONS, 'batched()')
    const { statement, respond, max } = options
    if (typeof statement !== 'function' || typeof respond !== 'function')
      throw invalid('batched() needs statement and respond')
    const run = this.batcher(max)
    return async (operation) => {
      const request = runRequestOf(this.core, operation, respond)
      refuseLease(operation, 'batched()')
      const { input } = operation
      const outcome = await run({
        request,
        statement: statement(input),
        respond: (rows, publisher) =>
          answerOfResult(
            respond(rows as never, input, { publish: (type, data, o) => publisher.publish(type, data, o) }),
          ),
      })
      return valueOf(outcome.answer) as Jsonify<R>
    }
  }

  /** Creates a batcher for any kind of answer, for `batched` and the HTTP adapters. */
  batcher(max: number = BATCH_REQUESTS_MAX): (item: BatchItem) => ReturnType<typeof execute> {
    if (!Number.isInteger(max) || max < 1) throw invalid('max must be a whole number from 1')
    const { core } = this
    const batcher = new Batcher(core, required(core.store, core.transactions && core.store.batches, 'batched'), max)
    return (item) => {
      checkStatement(item.statement)
      const outer = enclosingOf(core.enclosing)
      if (outer?.transaction) {
        const session = nestable(core.store, outer.transaction.session, 'nested')
        return runNested(core, outer as Host, item.request, (op) => produceAlone(session, item, op))
      }
      const outcome = execute(core, item.request, item, (_core, request, _item, won) =>
        batcher.add({ ...item, request, respond: inContext(item.respond), won }),
      )
      return outer ? outer.track(outcome) : outcome
    }
  }

  relay(options: RelayOptions): Relay {
    const { clock, random, settings, relays } = this.core
    const outbox = outboxOf(this.core)
    const { observe, tracing, namespace: source, listen } = settings
    const parts = { outbox, clock, random, observe, tracing, source, calls: listen ? outbox.calls : undefined }
    const relay = createRelay({ ...parts, closed: () => this.core.closing }, options)
    relays.add(relay)
    return relay
  }

  resend(events: ResendOptions): Promise<number> {
    return resendNow(this.core, events)
  }

  cancel(id: string): Promise<Cancellation> {
    return cancelNow(this.core, id)
  }

  get parked(): Parked {
    return parkedOf(this.core)
  }

  get destinations(): Destinations {
    return destinationsOf(this.core)
  }

  forget(options: { destination: string }): Promise<void> {
    return this.destinations.remove(options?.destination)
  }

  consumer<M, const L extends Duration | undefined = undefined>(
    name: string,
    options: ConsumerOptions<M, L>,
    on: Handlers<NoInfer<M>, L, Tx, E>,
  ): Consumer {
    return createConsumer(this.core, name, options as unknown as ConsumerOptions<unknown, L>, on)
  }

  get outbox(): PulledSource<EventsOf<E>> {
    return ownOutbox<Tx, E>(this.core)
  }

  get deadLetters(): DeadLetters {
    return lettersOf(this.core)
  }

  get redrive(): Redrive {
    return redrivesOf(this.core)
  }

  get operations(): Operations<Tx, E> {
    return operationsOf(this.core, (handlers) => this.#recoverers(handlers))
  }

  recover(handlers: RecoverHandlers<Tx, E>, options?: { limit?: number }): Promise<Recovered> {
    return this.operations.recover(handlers, options)
  }

  settle(operation: { scope: string; key: string }, verdict: Verdict): Promise<boolean> {
    return this.operations.settle(operation, verdict)
  }

  unknown(options: { limit?: number } = {}): Promise<readonly { id: string; sinceMs: number }[]> {
    const { store } = this.core
    return required(store, store.leases.unknown, 'unknown').call(store.leases, { limit: options.limit ?? 100 })
  }

  status(): Promise<Status> {
    return statusOf(this.core)
  }

  healthy(): Promise<Health> {
    return healthOf(this.core)
  }

  ready(): Promise<Readiness> {
    return readinessOf(this.core)
  }

  migrate(options: MigrateOptions = {}): Promise<{ from: number; to: number }> {
    return migrateNow(this.core, options)
  }

  async sweep(options: { limit?: number; signal?: AbortSignal } = {}): Promise<SweptAll> {
    const { limit } = options
    if (limit !== undefined) wholeNumber('limit', limit, SWEEP_LIMIT_MAX)
    if (this.core.closing) throw onceError('ONCE_CLOSED')
    return this.#sweeper.sweep(limit, options.signal)
  }

  async erase(options: EraseOptions): Promise<Erased> {
    return eraseNow(this.core, options)
  }

  async close(options: CloseOptions = {}): Promise<Closed> {
    const checked = checkClose(options)
    this.#closing ??= closeAll({ core: this.core, sweeper: this.#sweeper, leaveContext: this.#leaveContext }, checked)
    return this.#closing
  }

  #recoverers(handlers: RecoverHandlers<Tx, E>): ReadonlyMap<string, Recoverer> {
    const known = Object.entries(handlers).filter(([, handler]) => handler !== undefined)
    return new Map(
      known.map(([name, handler]) => [
        name,
        ({ input: text }) => {
          const { leaseMs, fingerprint, fingerprintVersion, ...sealed } = JSON.parse(text) as Sealed
          const operation = { ...sealed, lease: `${leaseMs}ms` as const, recover: name }
          const same = fingerprintVersion === FINGERPRINT_VERSION ? fingerprint : undefined
          const request = leasedRequestOf(this.core, operation, runRequestOf(this.core, operation, handler, same))
          const run = (op: LeasedOperation<Tx, E>): Promise<unknown> => handler(op, sealed.input)
          return this.leased(request, leasedProduceOf(run, sealed.input))
        },
      ]),
    )
  }
}
