import { isOnceError, onceError } from '../errors.ts'
import { isFinal } from '../operation/final.ts'
import { answerOfFinal } from '../operation/codec.ts'
import type { Outcome } from '../operation/outcome.ts'
import type { LeasedProduce } from '../operation/leased.ts'
import type { LeasedOperation, Operation } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import type { AnswerBatched } from './batched.ts'
import { decodeBody } from './content-coding.ts'
import { digestCheck, type Incoming, keyOf } from './incoming.ts'
import { jsonAnswer } from './json-answer.ts'
import type { AnyOperation } from './exchange.ts'
import { commitFailure, type HandlerEnd, type ProtectedRoute } from './protected-route.ts'
import { RolledBackAnswer } from './rolled-back-answer.ts'
import { type Captured, capture, responseOf } from './web.ts'
import type { Made, WebExchange } from './web-exchange.ts'
import { serveWebStream } from './web-stream.ts'

/** Serves one request. The Response repeats the key. Rejects only with errors that the host must answer. */
export async function serveWeb<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: WebExchange<Req>,
  batched?: AnswerBatched<Req>,
): Promise<Response> {
  const { route } = protection
  const value = exchange.web.headers.get(route.headerKey)
  let key: string
  try {
    // Repeated headers arrive joined by a comma, which the parser refuses.
    key = keyOf(route, value === null ? undefined : [value])
  } catch (error) {
    const problem = protection.problem(error, exchange)
    if (problem) return responseOf(problem)
    throw error
  }
  const response = await answered(protection, exchange, batched, key)
  if (value !== null) response.headers.set(route.headerKey, value)
  return response
}

async function answered<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: WebExchange<Req>,
  batched: AnswerBatched<Req> | undefined,
  key: string,
): Promise<Response> {
  const { route } = protection
  const run = new WebRun(protection, exchange)
  try {
    const incoming = await incomingOf(protection, exchange)
    const request = protection.request(incoming, key, exchange.rerunnable)
    if (route.streams === 'record') return await serveWebStream(protection, exchange, incoming, request)
    const known = protection.remembered(request)
    if (known) return responseOf(known)
    if (batched) return responseOf(await batched(incoming, request))
    const outcome =
      route.leaseMs === null
        ? await protection.instance.atomic(request, async (op) => protection.stored(request, await run.answer(op)))
        : await protection.leased(incoming, request, run.leased)
    if (outcome.replayed) return responseOf(await protection.replay(incoming, request, outcome))
    exchange.released?.()
    return run.response
  } catch (error) {
    run.stop()
    const found = run.answered ? commitFailure(error) : error
    const problem = protection.problem(found, exchange)
    if (problem) return responseOf(problem)
    throw found
  }
}

async function incomingOf<Tx, E extends Events, Req>(
  { route }: ProtectedRoute<Tx, E, Req>,
  { web, request, pattern, body }: WebExchange<Req>,
): Promise<Incoming<Req>> {
  const header = (name: string): string | undefined => web.headers.get(name) ?? undefined
  const base = { method: web.method, target: web.url, pattern, request, header }
  const wire = await body(route.bodyLimit)
  const digested = route.digest && (await digestCheck(header)?.(wire)) === true
  const { bytes, coded } = await decodeBody(wire, header('content-encoding'), route.bodyLimit)
  return { ...base, body: bytes, parsed: undefined, coded, digested }
}

class WebRun<Tx, E extends Events, Req> {
  readonly #protection: ProtectedRoute<Tx, E, Req>
  readonly #exchange: WebExchange<Req>
  #captured: Captured | undefined
  #over = false
  readonly #isOver = (): boolean => this.#over

  constructor(protection: ProtectedRoute<Tx, E, Req>, exchange: WebExchange<Req>) {
    this.#protection = protection
    this.#exchange = exchange
  }

  /** The caller no longer waits for the handler. */
  stop(): void {
    this.#over = true
  }

  /** Whether the handler has answered. Later failures are not its fault. */
  get answered(): boolean {
    return this.#captured !== undefined
  }

  get response(): Response {
    if (!this.#captured) throw onceError('ONCE_INVARIANT', { detail: 'an operation completed without an answer' })
    return this.#captured.response
  }

  async answer(op: AnyOperation): Promise<Captured['produced']> {
    this.#captured = undefined
    const { response, handlerEnd } = await this.#call(op)
    this.#captured = await this.#capture(response, handlerEnd)
    return this.#captured.produced
  }

  readonly leased: LeasedProduce<Tx> = async (tools) => {
    let committing: Promise<Outcome> | undefined
    const commit = async (make: (op: Operation<Tx, Events>) => unknown): Promise<Response> => {
      if (committing) throw onceError('ONCE_STEP_INVALID', { detail: 'commit was called twice' })
      committing = tools.commit(async (op) => {
        const { response, threw } = await this.#made(() => make(op))
        this.#captured = await this.#capture(response, threw ? 'threw' : 'returned')
        const { produced } = this.#captured
        if (produced.fate !== 'complete') throw new RolledBackAnswer(produced)
        return produced
      })
      await committing.catch((error: unknown) => {
        if (!(error instanceof RolledBackAnswer)) throw error
      })
      return this.response
    }
    const op = Object.create(tools.op, { commit: { value: commit, enumerable: true } }) as LeasedOperation<Tx, Events>
    const { response, handlerEnd, thrown } = await this.#call(op).catch(async (error: unknown) => {
      if (!committing) throw error
      await committing.catch(() => {
        throw error
      })
      // The committed answer counts. The error cannot be answered any more, so it is logged.
      this.#protection.tell(error, this.#exchange)
      return { response: this.response, handlerEnd: 'returned' as const, thrown: undefined }
    })
    try {
      if (committing) return { kind: 'committed', outcome: await committing }
    } catch (error) {
      if (error instanceof RolledBackAnswer) return { kind: 'refused', produced: error.produced }
      // A refusal thrown inside `commit` is an answer, too. A failed commit is not for the framework to answer.
      const isOurs = handlerEnd !== 'threw' || (isOnceError(error) && error === thrown)
      if (isOurs && !isFinal(error)) throw error
    }
    this.#captured = await this.#capture(response, handlerEnd)
    const { produced } = this.#captured
    if (produced.fate === 'complete') throw onceError('ONCE_NOT_COMMITTED')
    return { kind: 'refused', produced }
  }

  async #made(make: () => unknown): Promise<Made> {
    const { made } = this.#exchange
    return made ? made(make) : { response: await make(), threw: false }
  }

  #capture(response: unknown, handlerEnd: HandlerEnd): Promise<Captured> {
    return capture(this.#protection.route, this.#exchange.web, response, handlerEnd, this.#isOver)
  }

  async #call(op: AnyOperation): Promise<{ response: unknown; handlerEnd: HandlerEnd; thrown?: unknown }> {
    try {
      const { response, threw, error: thrown } = await this.#exchange.handle(op)
      return { response, handlerEnd: threw ? 'threw' : 'returned', thrown }
    } catch (error) {
      if (!isFinal(error)) throw error
      return { response: responseOf(jsonAnswer(answerOfFinal(error))), handlerEnd: 'final' }
    }
  }
}
