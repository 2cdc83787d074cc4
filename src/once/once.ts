import { deadLettersOf, type DeadLetters } from '../dead-letter/dead-letters.ts'
import { redriveOf } from '../dead-letter/redrive/redrive.ts'
import type { Redrive } from '../dead-letter/redrive/types.ts'
import { milliseconds, type Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import { createGuard } from '../guard/create-guard.ts'
import { fingerprintInput } from '../key/fingerprint.ts'
import {
  BATCH_REQUESTS_MAX,
  LEASE_MS_DEFAULT,
  LEASE_MS_MAX,
  LEASE_MS_MIN,
  RECOVER_INPUT_BYTES_MAX,
  RECOVER_LIMIT_DEFAULT,
  SWEEP_LIMIT_MAX,
} from '../limits.ts'
import type { Events } from '../outbox/event.ts'
import { callerOf } from '../outbox/caller.ts'
import { createRelay, type Relay, type RelayOptions } from '../outbox/relay.ts'
import type { EventsOf, PulledSource } from '../source/source.ts'
import { attemptAtomic, type Produce } from './atomic.ts'
import type { Item } from './batch.ts'
import { Batcher } from './batched.ts'
import { answerOfValue, jsonOf, valueOf } from './codec.ts'
import { createConsumer } from './consumer.ts'
import type { Consumer, ConsumerOptions, Handlers } from './consumer-types.ts'
import type { Core } from './core.ts'
import { createEnclosingContext } from './enclosing.ts'
import { execute } from './execute.ts'
import { Heart } from './heart.ts'
import { InFlightTable } from './in-flight.ts'
import { publishJoined, runJoined } from './join.ts'
import { attemptLeased, type LeasedProduce, type LeasedRequest } from './leased.ts'
import { runNested } from './nested.ts'
import { sleep } from '../platform/clock.ts'
import { ownOutbox } from './own-outbox.ts'
import { Pace } from './pace.ts'
import { systemParts, type Parts } from './parts.ts'
import { leasedProduceOf, produceOf } from './produce.ts'
import { recoverLapsed } from './recover.ts'
import { ReplayCache } from './replay-cache.ts'
import { outboxOf, resendNow } from './resend.ts'
import { requestOf, type Request } from './request.ts'
import { checkSettings, invalid, refuseUnknown } from './settings.ts'
import { storedVerdict } from './stored-verdict.ts'
import { startSweeper, sweepNow, type SweptAll } from './sweeper.ts'
import type {
  BatchedOptions,
  BatchedRun,
  Jsonify,
  Joined,
  LeasedOperation,
  Once,
  OnceOptions,
  Op,
  Operation,
  Recovered,
  RecoverHandlers,
  ResendOptions,
  Result,
  RunOptions,
  Verdict,
} from './types.ts'

/** One instance per service: it owns the keys of its namespace on one store. */
export function effectivelyOnce<Tx, const E extends Events = {}>(options: OnceOptions<Tx, E>): Once<Tx, E> {
  return createOnce(options, systemParts)
}

/** The same with its clock, randomness and decisions given: the simulator's way in. */
export function createOnce<Tx, const E extends Events = {}>(
  options: OnceOptions<Tx, E>,
  parts: Parts,
): OnceInstance<Tx, E> {
  return new OnceInstance(options, parts)
}

const RUN_OPTIONS = new Set([
  'scope',
  'key',
  'input',
  'lease',
  'inFlight',
  'expired',
  'deadline',
  'replayFor',
  'goneFor',
  'ignore',
  'recover',
])
const BATCHED_OPTIONS = new Set(['statement', 'respond', 'max'])
/** One operation of a batch, before it is queued. */
export type BatchItem = Pick<Item, 'request' | 'statement' | 'respond'>

export class OnceInstance<Tx, E extends Events> implements Once<Tx, E> {
  /** For adapters of this package; not public API. */
  readonly core: Core<Tx>
  readonly #stopSweeper: () => void

  constructor(options: OnceOptions<Tx, E>, parts: Parts) {
    const settings = checkSettings(options)
    const { store } = options
    const enclosing = createEnclosingContext()
    this.core = {
      ...parts,
      store,
      settings,
      enclosing,
      inFlight: new InFlightTable(),
      cache: new ReplayCache(parts.clock),
      pace: new Pace(),
      heart: new Heart(store.leases, parts.clock, settings.observe),
      guard:
        settings.guard === 'off'
          ? null
          : createGuard({ mode: settings.guard, store, clock: parts.clock, observe: settings.observe, enclosing }),
      relays: new Set(),
      workers: new Set(),
      closed: false,
    }
    if (settings.listen) this.core.relays.add(callerOf(store, settings.observe))
    this.#stopSweeper = settings.sweep ? startSweeper(this.core) : () => {}
  }

  async run<R, const L extends Duration | undefined = undefined>(
    operation: RunOptions<L>,
    handler: (op: Op<L, Tx, E>) => Promise<Result<L, R>>,
  ): Promise<Jsonify<R>> {
    const request = this.#request(operation, handler)
    const outcome =
      operation.lease === undefined
        ? await this.atomic(request, produceOf(handler as (op: Operation<Tx, E>) => Promise<unknown>))
        : await this.leased(
            this.#leasedRequest(operation, request),
            leasedProduceOf(handler as (op: LeasedOperation<Tx, E>) => Promise<unknown>),
          )
    return valueOf(outcome.answer) as Jsonify<R>
  }

  /** An atomic operation with any kind of answer: what `run` and the HTTP adapters share. */
  atomic(request: Request, produce: Produce<Tx>): ReturnType<typeof execute> {
    const { core } = this
    const outer = core.enclosing.get()
    if (outer?.session) {
      const host = { session: outer.session, tx: outer.tx, enclosing: outer }
      return runNested(core as Core<unknown>, host, request, produce as Produce<unknown>)
    }
    return execute(core, request, (won) => attemptAtomic(core, request, produce, won))
  }

  leased(request: LeasedRequest, produce: LeasedProduce<Tx>): ReturnType<typeof execute> {
    if (this.core.enclosing.get()?.session) throw onceError('ONCE_NESTED_LEASE')
    return execute(this.core, request, (won) => attemptLeased(this.core, request, produce, won))
  }

  join(tx: Tx): Joined<Tx, E> {
    const { core } = this
    return {
      run: async (operation, handler) => {
        if (core.closed) throw onceError('ONCE_CLOSED')
        const request = this.#request(operation, handler)
        const outcome = await runJoined(
          core,
          tx,
          request,
          produceOf(handler as (op: Operation<Tx, E>) => Promise<unknown>),
        )
        return valueOf(outcome.answer) as never
      },
      publish: (type, data, options) => publishJoined(core, tx, type, data, options),
    }
  }

  batched<I, R>(options: BatchedOptions<I, R, E>): (operation: BatchedRun<I>) => Promise<Jsonify<R>> {
    refuseUnknown(options, BATCHED_OPTIONS, 'batched()')
    const { statement, respond, max } = options
    if (typeof statement !== 'function' || typeof respond !== 'function')
      throw invalid('batched() needs statement and respond')
    const run = this.batcher(max)
    return async (operation) => {
      const request = this.#request(operation, respond)
      const { input } = operation
      const outcome = await run({
        request,
        statement: statement(input),
        respond: (rows, publisher) =>
          answerOfValue(
            respond(rows as never, input, { publish: (type, data, o) => publisher.publish(type, data, o) }),
          ),
      })
      return valueOf(outcome.answer) as Jsonify<R>
    }
  }

  /** Batched operations with any kind of answer: what `batched` and the HTTP adapters share. */
  batcher(max: number = BATCH_REQUESTS_MAX): (item: BatchItem) => ReturnType<typeof execute> {
    if (!Number.isInteger(max) || max < 1) throw invalid('max must be a whole number from 1')
    const { core } = this
    const { batches } = core.store
    if (!batches) throw onceError('ONCE_UNSUPPORTED', { detail: `the ${core.store.name} store has no batches` })
    const batcher = new Batcher(core, batches, max)
    return (item) => {
      checkStatement(item.statement)
      return execute(core, item.request, (won) => batcher.add({ ...item, won }))
    }
  }

  relay(options: RelayOptions): Relay {
    const { clock, random, settings, relays } = this.core
    const outbox = outboxOf(this.core)
    const { observe, namespace: source, listen } = settings
    const calls = listen ? outbox.calls : undefined
    const relay = createRelay({ outbox, clock, random, observe, source, calls }, options)
    relays.add(relay)
    return relay
  }

  resend(events: ResendOptions): Promise<number> {
    return resendNow(this.core, events)
  }

  async forget({ destination }: { destination: string }): Promise<void> {
    if (typeof destination !== 'string') throw invalid('forget() needs { destination }')
    await outboxOf(this.core).forget({ destination })
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
    const { inbox, redrives, name } = this.core.store
    if (!inbox) throw onceError('ONCE_UNSUPPORTED', { detail: `the ${name} store has no dead letters` })
    return deadLettersOf(inbox.letters, redrives)
  }

  get redrive(): Redrive {
    return redriveOf(this.core.store, this.core.clock)
  }

  recover(handlers: RecoverHandlers<Tx, E>, options: { limit?: number } = {}): Promise<Recovered> {
    return recoverLapsed(
      this.core,
      options.limit ?? RECOVER_LIMIT_DEFAULT,
      ({ name }, { scope, key, input, leaseMs }) => {
        const handler = Object.hasOwn(handlers, name) ? handlers[name] : undefined
        if (!handler) return null
        const lease = `${leaseMs}ms` as const
        return this.run({ scope, key, input, lease, recover: name }, (op) => handler(op, input) as Promise<never>).then(
          () => {},
        )
      },
    )
  }

  async settle({ scope, key }: { scope: string; key: string }, verdict: Verdict): Promise<boolean> {
    // Whatever its input was: an operator names the operation, not the request.
    const fingerprint = fingerprintInput(null)
    const { claim } = requestOf(this.core.settings, {
      scope,
      key,
      fingerprint,
      route: 'settle',
      at: 0,
      rerunnable: false,
    })
    return this.core.store.leases.settle({ claim, verdict: storedVerdict(verdict) })
  }

  unknown(options: { limit?: number } = {}): Promise<readonly { id: string; sinceMs: number }[]> {
    return this.core.store.leases.unknown({ limit: options.limit ?? 100 })
  }

  migrate(): Promise<{ from: number; to: number }> {
    return this.core.store.schema.migrate()
  }

  async sweep(options: { limit?: number; signal?: AbortSignal } = {}): Promise<SweptAll> {
    const { limit } = options
    if (limit !== undefined && (!Number.isInteger(limit) || limit < 1 || limit > SWEEP_LIMIT_MAX)) {
      throw invalid(`limit must be a whole number from 1 to ${SWEEP_LIMIT_MAX}`)
    }
    return sweepNow(this.core, limit, options.signal)
  }

  async close(): Promise<void> {
    if (this.core.closed) return
    this.core.closed = true
    this.#stopSweeper()
    const workers = [...this.core.relays, ...this.core.workers]
    await Promise.all(workers.map((worker) => worker.stop().catch(() => {})))
    // What runs may end, with its heartbeats and its connection; what hangs is not waited for past its deadline.
    const late = new AbortController()
    await Promise.race([
      this.core.inFlight.drained(),
      sleep(this.core.clock, this.core.settings.deadlineMs, late.signal),
    ])
    late.abort()
    this.core.heart.stop()
    this.core.guard?.stop()
    this.core.cache.clear()
    this.core.enclosing.close()
    await this.core.store.close()
  }

  #request(
    operation: RunOptions<Duration | undefined> | BatchedRun<unknown>,
    handler: { readonly name: string },
  ): Request {
    if (typeof operation !== 'object' || operation === null) throw invalid('an operation needs { scope, key, input }')
    refuseUnknown(operation, RUN_OPTIONS, 'an operation')
    if (typeof handler !== 'function') throw invalid('an operation needs a handler')
    const { scope, key, input, ignore } = operation as RunOptions<undefined>
    const request = requestOf(this.core.settings, {
      scope,
      key,
      fingerprint: fingerprintInput(input, ignore),
      route: handler.name || 'run',
      at: this.core.clock.now(),
      rerunnable: true,
      overrides: operation,
    })
    this.core.guard?.seen(request)
    return request
  }

  #leasedRequest(operation: RunOptions<Duration | undefined>, request: Request): LeasedRequest {
    const limits = { option: 'lease', min: LEASE_MS_MIN, max: LEASE_MS_MAX }
    const leaseMs = milliseconds(operation.lease, LEASE_MS_DEFAULT, limits)
    if (operation.recover === undefined) return { ...request, leaseMs, recover: null }
    const { scope, key, input, recover: name } = operation
    const sealed = jsonOf({ scope, key, input, leaseMs }, 'the input')
    if (Buffer.byteLength(sealed) > RECOVER_INPUT_BYTES_MAX)
      throw invalid(`the input of a recoverable operation has at most ${RECOVER_INPUT_BYTES_MAX} bytes`)
    return { ...request, leaseMs, recover: { namespace: this.core.settings.namespace, name, input: sealed } }
  }
}

function checkStatement(made: BatchItem['statement']): void {
  if (typeof made?.sql !== 'string' || !Array.isArray(made.values))
    throw invalid('statement must return { sql, values }')
}
