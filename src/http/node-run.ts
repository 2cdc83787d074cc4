import { isOnceError, onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { Produce } from '../operation/atomic.ts'
import { answerOfFinal } from '../operation/codec.ts'
import { isFinal } from '../operation/final.ts'
import type { LeasedProduce, LeasedTools } from '../operation/leased.ts'
import type { Finish, Outcome, Produced } from '../operation/outcome.ts'
import type { Request } from '../operation/request.ts'
import type { LeasedOperation, Operation } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import { storedHeaders } from './headers.ts'
import { type HeldAnswer, Hold } from './hold.ts'
import { type AnyOperation, type Exchange, writeAnswer } from './exchange.ts'
import { ignoreLater } from './held-response.ts'
import { jsonAnswer } from './json-answer.ts'
import { fateOfAnswer, type HandlerEnd, type ProtectedRoute } from './protected-route.ts'
import type { Route } from './route.ts'
import { RolledBackAnswer } from './rolled-back-answer.ts'

/**
 * One run of a handler with a held response. The call of `end()` is its answer. The handler, the framework after it or
 * the error middleware may make that call.
 */
export class NodeRun<Tx, E extends Events, Req> {
  readonly #protection: ProtectedRoute<Tx, E, Req>
  readonly #exchange: Exchange<Req>
  readonly #request: Request
  #hold: Hold | undefined
  #settled = false
  #handlerEnd: HandlerEnd = 'returned'
  #over = false
  #committing: Promise<Outcome> | undefined
  /** The answer of `commit` is stored, or is being stored. */
  #isConcluding = false
  #commitFailure: unknown

  constructor(protection: ProtectedRoute<Tx, E, Req>, exchange: Exchange<Req>, request: Request) {
    this.#protection = protection
    this.#exchange = exchange
    this.#request = request
  }

  readonly produce: Produce<Tx> = async (op) => {
    if (this.#exchange.res.headersSent) throw answeredBefore()
    const hold = this.#held()
    try {
      this.#returned(await this.#call(op, hold))
    } catch (error) {
      const blamed = this.#protection.blamed(error)
      if (blamed && (await blamed)) throw error
      await this.#threw(error, hold)
    }
    return this.#stored(hold)
  }

  produceLeased(): LeasedProduce<Tx> {
    return (tools) => this.#leased(tools)
  }

  async #leased(tools: LeasedTools<Tx>): Promise<Finish> {
    if (this.#exchange.res.headersSent) throw answeredBefore()
    const hold = this.#held()
    const op = Object.create(tools.op, {
      commit: { value: this.#commit(tools, hold), enumerable: true },
    }) as LeasedOperation<Tx, Events>
    try {
      this.#returned(await this.#call(op, hold))
    } catch (error) {
      if (await this.#isCommitted()) {
        // The committed answer counts. The error cannot be answered any more, so it is logged.
        this.#protection.tell(error, this.#exchange)
        this.#returned(undefined)
      } else await this.#threw(error, hold)
    }
    try {
      if (this.#committing) return { kind: 'committed', outcome: await this.#committing }
    } catch (error) {
      if (error instanceof RolledBackAnswer) return { kind: 'refused', produced: error.produced }
      // The commit failed and the handler continued, or its error was already answered.
      if (this.#handlerEnd !== 'threw' && !isFinal(error)) throw error
    }
    const produced = await this.#made(hold)
    if (produced.fate === 'complete') throw onceError('ONCE_NOT_COMMITTED')
    return { kind: 'refused', produced }
  }

  /** Whether the handler was called. A replay does not call it. */
  get called(): boolean {
    return this.#hold !== undefined
  }

  /** The handler returned without an answer. */
  get unanswered(): boolean {
    return this.#settled && this.#hold?.begun === false
  }

  /** Sends the answer, after the commit. */
  release(): void {
    this.#over = true
    this.#hold?.release(this.#protection.route.headerKey)
  }

  /** Drops the handler's answer, because another answer is sent instead. */
  discard(answer: () => void): void {
    this.#over = true
    const hold = this.#hold
    hold?.discard()
    answer()
    // The answer may be sent later (a session is saved first), and the handler may still answer.
    if (hold) ignoreLater(this.#exchange.res)
  }

  /**
   * Lets the framework answer the error, now or later. If the next answer reports a success, it is the handler's late
   * answer. Then `otherwise` is sent in place of it.
   */
  fail(error: unknown, otherwise: Answer): void {
    this.#over = true
    const exchange = this.#exchange
    this.#hold?.discard()
    const hold = new Hold(exchange.res, 'buffer')
    const send = (): void => hold.replace(otherwise)
    // If outer middleware makes the answer unsendable, end the connection, not the process.
    const giveUp = (): void => void exchange.res.destroy()
    hold.answered
      .then(({ status }) => (status < 400 ? send() : hold.release(this.#protection.route.headerKey)), send)
      .catch(giveUp)
    try {
      exchange.unsay?.(error)
      if (exchange.isTaken?.()) send()
      else exchange.fail(error)
    } catch {
      giveUp()
    }
  }

  #held(): Hold {
    this.#hold = new Hold(this.#exchange.res, heldStreams(this.#protection.route))
    return this.#hold
  }

  /** Runs the handler. If it returns no promise, it is done when it has answered. */
  #call(op: AnyOperation, hold: Hold): unknown {
    hold.onEnded = () => this.#tell(hold, 'finish')
    const returned = this.#exchange.handle(op, () => hold.answered)
    return isThenable(returned) ? returned : hold.answered.then(answeredOnly)
  }

  #returned(value: unknown): void {
    this.#settled = true
    if (this.#over) return
    // The handler may answer in a callback, so wait until the deadline.
    if (value === ANSWERED) this.#exchange.handled(undefined)
    else if (this.#exchange.answersLater) this.#exchange.handled(value)
  }

  /** The framework answers the handler's error, into the held response. */
  async #threw(error: unknown, hold: Hold): Promise<void> {
    const exchange = this.#exchange
    this.#settled = true
    // Otherwise a late answer of the handler would count as the answer to this error.
    if (!this.#over && !hold.begun && exchange.isAnswering?.()) await hold.answered.catch(() => {})
    if (this.#over) return
    if (isFinal(error)) {
      this.#handlerEnd = 'final'
      hold.reset()
      writeAnswer(exchange.res, jsonAnswer(answerOfFinal(error)))
      exchange.handled(undefined)
      return
    }
    if (this.#isOurs(error, hold)) throw error
    this.#handlerEnd = 'threw'
    // Headers that were set before the answer stay, as they do without us.
    if (hold.begun || hold.isHeadSent) {
      hold.reset()
      exchange.unsay?.(error)
    }
    exchange.fail(error)
  }

  /** A handler that still runs when its answer is whole may wait for `finish`, and after that for `close`. */
  #tell(hold: Hold, event: 'finish' | 'close'): void {
    setImmediate(() => {
      if (this.#settled || this.#over) return
      hold.tell(event)
      if (event === 'finish') this.#tell(hold, 'close')
    })
  }

  async #isCommitted(): Promise<boolean> {
    if (!this.#isConcluding || !this.#committing) return false
    return this.#committing.then(
      () => true,
      () => false,
    )
  }

  /**
   * Errors that the framework must not answer: a conflict that runs again, a failed commit, an answer that cannot be
   * held, and a step of a refused operation, whose answer is stored.
   */
  #isOurs(error: unknown, hold: Hold): boolean {
    if (this.#protection.isTransient(error) || isOnceError(error, 'ONCE_UNDOING')) return true
    return isOnceError(error) && (error === this.#commitFailure || error === hold.failure)
  }

  /** Most handlers have answered by now. */
  #made(hold: Hold): Produced | Promise<Produced> {
    return hold.answer ? this.#producedOf(hold.answer) : hold.answered.then((held) => this.#producedOf(held))
  }

  #stored(hold: Hold): Produced | Promise<Produced> {
    const made = this.#made(hold)
    if (!(made instanceof Promise)) return this.#protection.stored(this.#request, made)
    return made.then((produced) => this.#protection.stored(this.#request, produced))
  }

  #producedOf({ status, headers, body }: HeldAnswer): Produced {
    const { route } = this.#protection
    const bare = status === 204 || status === 304
    const sent = this.#exchange.req.headers
    const kept = storedHeaders(headers, route.kept, (name) => sent[name] as string | undefined)
    const answer = { status, headers: kept, body: bare ? null : body, kept: true }
    return { answer, fate: fateOfAnswer(answer, route, this.#handlerEnd) }
  }

  /**
   * The final transaction commits together with the answer. If `commit` did not give the answer, the transaction stays
   * open until the handler or the framework has answered.
   */
  #commit(tools: LeasedTools<Tx>, hold: Hold): (make: (op: Operation<Tx, Events>) => unknown) => Promise<unknown> {
    return (make) => {
      if (this.#committing) throw onceError('ONCE_STEP_INVALID', { detail: 'commit was called twice' })
      return new Promise((resolve, reject) => {
        let value: unknown
        let tries = 0
        this.#committing = tools.commit(async (op) => {
          if (tries++ > 0) hold.reset()
          this.#isConcluding = false
          value = await make(op)
          if (!hold.begun) {
            if (this.#exchange.answerNow) this.#exchange.answerNow()
            else resolve(value)
          }
          const produced = await this.#made(hold)
          if (produced.fate !== 'complete' || this.#handlerEnd === 'threw') throw new RolledBackAnswer(produced)
          this.#isConcluding = true
          return produced
        })
        this.#committing.then(
          () => resolve(value),
          (error: unknown) => {
            this.#commitFailure = error
            if (error instanceof RolledBackAnswer) resolve(value)
            else reject(error)
          },
        )
      })
    }
  }
}

/**
 * Middleware answered before the handler was called, for example after a timeout. The handler's answer would not be
 * used.
 */
function answeredBefore(): Error {
  return onceError('ONCE_ANSWER_INVALID', { detail: 'The response was sent before the handler was called' })
}

/** A route with recorded streams answers in another way. */
function heldStreams({ streams }: Pick<Route<never>, 'streams'>): 'buffer' | 'refuse' | undefined {
  return streams === 'record' ? undefined : streams
}

const ANSWERED = Symbol('a handler without a promise has answered')

function answeredOnly(): typeof ANSWERED {
  return ANSWERED
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
