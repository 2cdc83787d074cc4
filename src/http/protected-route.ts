import { isOnceError, onceError, type OnceError } from '../errors.ts'
import { invalid } from '../options.ts'
import { type Answer, fateOf } from '../lifecycle/answer.ts'
import type { Produce } from '../operation/atomic.ts'
import { isTransient } from '../operation/atomic.ts'
import { withinMs } from '../operation/deadline.ts'
import { openEnclosing } from '../operation/enclosing.ts'
import { replayed } from '../operation/execute.ts'
import { instanceOf } from '../once/instance.ts'
import type { LeasedProduce } from '../operation/leased.ts'
import type { OnceInstance } from '../once/once.ts'
import type { Outcome, Produced } from '../operation/outcome.ts'
import { requestOf, type Request } from '../operation/request.ts'
import { promiseTerms } from '../operation/retention-terms.ts'
import type { Once } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import type { Recoverer } from '../operation/recover.ts'
import { required } from '../store/lacking.ts'
import type { LapsedOperation } from '../store/store.ts'
import { openRequest, recoverName, recoverProduce, sealRequest } from './recover.ts'
import type { RecoverRoute } from './recover-types.ts'
import { checkStored } from './headers.ts'
import { fingerprintOf, type Incoming, scopeOf } from './incoming.ts'
import { answerOfRefusal, type ReplayRecord } from './options.ts'
import { problemOf, type ProblemStyle } from './problem.ts'
import { type About, Report } from './report.ts'
import type { Route } from './route.ts'
import { endOf } from '../stream/head.ts'
import { fromStored, toStored, unmarked } from './stored.ts'

/** One protected route: the part that is the same for every framework. */
export class ProtectedRoute<Tx, E extends Events, Req> {
  readonly instance: OnceInstance<Tx, E>
  readonly route: Route<Req>
  readonly #style: ProblemStyle
  readonly #report: Report<Req>
  /** Answers that are ready to send, by the stored answer, so that each answer in memory is checked once. */
  readonly #ready = new WeakMap<Answer, Answer | null>()

  constructor(once: Once<Tx, E>, route: Route<Req>) {
    this.instance = instanceOf(once)
    this.route = route
    this.#style = { docs: route.docs }
    this.#report = new Report(route.onError, this.instance.core.clock)
    promiseTerms(this.instance.core, route.overrides)
    const { name, recover } = route
    if (recover && name !== null) this.#register(recoverName(name), (lapsed) => this.#recover(recover, lapsed))
  }

  #register(name: string, recoverer: Recoverer): void {
    const { store, recoverers } = this.instance.core
    required(store, store.leases.lapsed, 'recover')
    if (recoverers.has(name))
      throw invalid(`two routes have the name '${this.route.name}': recover cannot tell them apart`)
    recoverers.set(name, recoverer)
  }

  /** Whether requests with this method are protected. Others pass through untouched. */
  protects(method: string): boolean {
    return this.route.methods.has(method)
  }

  request(incoming: Incoming<Req>, key: string, rerunnable: boolean): Request {
    const { route, instance } = this
    const request = requestOf(instance.core.settings, {
      scope: scopeOf(route, incoming),
      key,
      fingerprint: fingerprintOf(route, incoming),
      route: incoming.pattern,
      at: instance.core.clock.now(),
      rerunnable,
      trace: { traceparent: incoming.header('traceparent'), tracestate: incoming.header('tracestate') },
      overrides: route.overrides,
    })
    const { guard } = instance.core
    guard?.seen(request)
    if (guard && route.scope === 'global') {
      const shown = incoming.header('authorization') ?? incoming.header('cookie')
      if (shown !== undefined) guard.seenCaller(request, shown)
    }
    return request
  }

  /**
   * The answer to a request that this process has answered before, ready to send. Null: ask the instance, which returns
   * the same answer, but asynchronously. Routes with `onReplay` or `encrypt`, and all refusals, take that way.
   */
  remembered(request: Request): Answer | null {
    const { core } = this.instance
    const { id, fingerprint, fingerprintVersion } = request.claim
    const entry = core.cache.get(id)
    if (!entry || entry.fingerprint !== fingerprint || entry.fingerprintVersion !== fingerprintVersion) return null
    if (core.closed || openEnclosing(core.enclosing)?.transaction) return null
    let ready = this.#ready.get(entry.answer)
    if (ready === undefined) {
      ready = this.#readied(entry.answer)
      this.#ready.set(entry.answer, ready)
    }
    if (ready) replayed(core, request, 'memory')
    return ready
  }

  #readied(stored: Answer): Answer | null {
    const { onReplay, seal, version } = this.route
    if (onReplay || seal) return null
    const found = unmarked(stored)
    if (endOf(stored)) return null
    if (found.keyId !== null || (version !== null && found.version !== version)) return null
    checkStored(found.headers)
    return { ...stored, headers: [...found.headers, REPLAYED] }
  }

  async leased(incoming: Incoming<Req>, request: Request, produce: LeasedProduce<Tx>): Promise<Outcome> {
    const { recover, seal, label: labelOf } = this.route
    const label = (await this.inTime(request, labelOf?.(incoming.request))) ?? null
    return this.#leased(request, label, recover ? await sealRequest(seal, incoming, request, label) : null, produce)
  }

  #leased(request: Request, label: string | null, input: string | null, produce: LeasedProduce<Tx>): Promise<Outcome> {
    const { leaseMs, name } = this.route
    const { namespace } = this.instance.core.settings
    const recover = input === null ? null : { namespace, name: recoverName(name ?? ''), input }
    const leased = { ...request, leaseMs: leaseMs ?? 0, recover, label, shownAs: name ?? request.route }
    return this.instance.leased(leased, async ({ op, commit, holder }) => {
      const stored = async (inner: Parameters<Produce<Tx>>[0], make: Produce<Tx>): Promise<Produced> =>
        this.stored(request, await make(inner))
      const finish = await produce({ op, holder, commit: (make) => commit((inner) => stored(inner, make)) })
      if (finish.kind === 'committed') return finish
      return { kind: 'refused', produced: await this.stored(request, finish.produced) }
    })
  }

  /** Finishes an operation whose client did not come back. */
  async #recover(recover: RecoverRoute<Tx, E>, { id, input: text }: LapsedOperation): Promise<Outcome> {
    const { core } = this.instance
    const { scope, key, pattern, label, fingerprint, given } = openRequest(this.route.seal, id, text)
    const request = requestOf(core.settings, {
      scope,
      key,
      fingerprint,
      route: pattern,
      at: core.clock.now(),
      rerunnable: true,
      overrides: this.route.overrides,
    })
    return this.#leased(request, label, text, recoverProduce(recover, given))
  }

  /** Whether the whole transaction may run again after this error. Then the framework must not answer it. */
  isTransient(error: unknown): boolean {
    return isTransient(this.instance.core, error)
  }

  /**
   * The reason of a handler's error, if the server or the network ended the transaction. Undefined: the error is the
   * handler's own. Called inside the operation, while its transaction is open.
   */
  blamed(error: unknown): Promise<unknown> | undefined {
    return openEnclosing(this.instance.core.enclosing)?.session?.blame?.(error)
  }

  /** The problem document for an error of this package. Null: another error, or one that the framework answers. */
  problem(error: unknown, about: About<Req>): Answer | null {
    if (!isOnceError(error) || this.leaves(error)) return null
    if (error.status >= 500) this.tell(error, about)
    return this.document(error)
  }

  /** Whether the framework answers this error of the package. */
  leaves({ status }: OnceError): boolean {
    return status >= 500 && this.route.errors === 'framework'
  }

  document(error: OnceError): Answer {
    return problemOf(error, this.#style)
  }

  /** Reports an error to `onError` or to the log. Never throws. */
  tell(error: unknown, about: About<Req>): void {
    this.#report.tell(error, about)
  }

  /** The handler's answer in its stored form. */
  stored(request: Request, produced: Produced): Produced | Promise<Produced> {
    const { answer, fate } = produced
    if (fate === 'release') return produced
    const stored = toStored(this.route, request, answer)
    if (stored instanceof Promise) return stored.then((sealed) => ({ answer: sealed, fate }))
    return stored === answer ? produced : { answer: stored, fate }
  }

  /** The answer that the client gets for a stored answer. */
  async replay(incoming: Incoming<Req>, request: Request, outcome: Outcome): Promise<Answer> {
    return (await this.replayOrRefuse(incoming, request, outcome)).answer
  }

  /** The same. `refused`: `onReplay` gave another answer. */
  async replayOrRefuse(
    incoming: Incoming<Req>,
    request: Request,
    outcome: Outcome,
  ): Promise<{ readonly answer: Answer; readonly refused: boolean }> {
    const { onReplay } = this.route
    const found = await fromStored(this.route, request, outcome.answer)
    const answer = await this.#current(request, found)
    if (onReplay) {
      const record = { ...recordOf(request, answer), version: found.version }
      const refusal = await this.inTime(request, onReplay(incoming.request, record))
      if (refusal) return { answer: answerOfRefusal(refusal), refused: true }
    }
    return { answer: { ...answer, headers: [...answer.headers, REPLAYED] }, refused: false }
  }

  /** Limits a hook to the operation's deadline. */
  inTime<T>({ deadlineMs }: Request, said: T | Promise<T>): T | Promise<T> {
    return withinMs(this.instance.core.clock, deadlineMs, said)
  }

  /** Upgrades an answer of another version. Without `upgrade`, it is gone. */
  async #current(request: Request, found: { answer: Answer; version: string | null }): Promise<Answer> {
    const { version, upgrade } = this.route
    if (version === null || found.version === version) return found.answer
    if (upgrade) {
      const record = { ...recordOf(request, found.answer), version: found.version }
      return answerOfRefusal(await this.inTime(request, upgrade(record)))
    }
    throw onceError('ONCE_GONE', { detail: 'The answer was stored by another version of this API' })
  }
}

/** Stripe's name for this header, which many APIs use. */
const REPLAYED: readonly [string, string] = ['idempotent-replayed', 'true']

/** How the handler ended. `threw`: the framework answered its error. `final`: it threw `final(…)`. */
export type HandlerEnd = 'returned' | 'threw' | 'final'

/**
 * What becomes of an operation, by the status of its answer, whoever wrote the answer. If the handler threw, its rows
 * are rolled back even after a successful status. With `keep4xx`, the rows of a 4xx answer are kept.
 */
export function fateOfAnswer(
  { status }: Pick<Answer, 'status'>,
  { refusals }: Pick<Route<never>, 'refusals'>,
  handlerEnd: HandlerEnd,
): Produced['fate'] {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw onceError('ONCE_ANSWER_INVALID', { detail: `Status ${status} cannot be held until the commit` })
  }
  const fate = fateOf(status)
  if (fate === 'refuse' && refusals === 'keep') return 'complete'
  if (fate === 'refuse' && refusals === 'release' && handlerEnd !== 'final') return 'release'
  return fate === 'complete' && handlerEnd === 'threw' ? 'refuse' : fate
}

/**
 * The error of a commit that failed after the handler answered. No part of that answer is sent. If the database refused
 * the commit (a deferred constraint or trigger), a retry would fail alike, so that is not an unavailable store.
 */
export function commitFailure(error: unknown): OnceError {
  if (isOnceError(error)) return error
  if (REFUSED.test(codeOf(error)))
    return onceError('ONCE_ROLLED_BACK', { detail: 'The database refused the commit', cause: error })
  return onceError('ONCE_STORE_UNAVAILABLE', {
    detail: 'The commit failed; no part of the answer was sent',
    cause: error,
  })
}

/** Error codes of SQL (23505, P0001), Prisma (P2002) and SQLite. Network error codes contain no digit. */
const REFUSED = /^(?:(?=.*\d)[0-9A-Z]{5}|SQLITE_CONSTRAINT.*)$/

function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | null | undefined)?.code)
}

function recordOf({ key, scope }: Request, answer: Answer): Omit<ReplayRecord, 'version'> {
  return { key, scope, status: answer.status, headers: answer.headers, body: answer.body }
}
