import { isOnceError, onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { isMismatch } from '../lifecycle/decide.ts'
import { isErased } from '../lifecycle/record.ts'
import type { Outcome } from '../operation/outcome.ts'
import type { Request } from '../operation/request.ts'
import type { Events } from '../outbox/event.ts'
import { required } from '../store/lacking.ts'
import type { Streams } from '../store/streams.ts'
import { type Framing, framingOf } from '../stream/framing.ts'
import { endOf, type StreamHead } from '../stream/head.ts'
import { StreamReader } from '../stream/stream-reader.ts'
import { readHead } from '../stream/written.ts'
import { deferred } from './deferred.ts'
import type { HeaderPairs } from './headers.ts'
import type { Incoming } from './incoming.ts'
import type { ProtectedRoute } from './protected-route.ts'
import { Pauses } from './pauses.ts'
import { endFrame, interrupted } from './stream-end.ts'
import { positionIn, STREAM_OFFSET, wantedPosition, type WantedPosition } from './stream-position.ts'
import { type Opened, StreamRun, type StreamExchange } from './stream-run.ts'

/** What the client gets: an answer as on any other route, or a stream. */
export type Served =
  | { readonly kind: 'answer'; readonly answer: Answer; readonly isOwn: boolean }
  | {
      readonly kind: 'stream'
      readonly status: number
      readonly headers: HeaderPairs
      /** Throws when the connection must be broken off, because the stream has no other way to report its end. */
      readonly body: AsyncGenerator<Uint8Array, void, undefined>
      /** Whether the head is that of this request's own handler. */
      readonly isOwn: boolean
    }

/** Serves one request to a route with recorded streams. Throws the errors that are answered before the head. */
export function serveStream<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  exchange: StreamExchange<Req>,
  incoming: Incoming<Req>,
  request: Request,
): Promise<Served> {
  return new StreamRequest(protection, exchange, incoming, { ...request, waitMs: 0, attaches: true }).serve()
}

/** How a try to run the operation ended. `busy`: another attempt runs. */
type Led =
  | { readonly kind: 'opened'; readonly opened: Opened }
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  | { readonly kind: 'busy' }

/**
 * One client of a recorded stream. Every client reads what is recorded, also the client whose request runs the handler.
 * So it does not matter who produces, and no client sees a byte that could be lost.
 */
class StreamRequest<Tx, E extends Events, Req> {
  readonly #protection: ProtectedRoute<Tx, E, Req>
  readonly #exchange: StreamExchange<Req>
  readonly #incoming: Incoming<Req>
  readonly #request: Request
  readonly #streams: Streams
  #isStarted = false
  #run: StreamRun<Tx, E, Req> | undefined

  constructor(
    protection: ProtectedRoute<Tx, E, Req>,
    exchange: StreamExchange<Req>,
    incoming: Incoming<Req>,
    request: Request,
  ) {
    this.#protection = protection
    this.#exchange = exchange
    this.#incoming = incoming
    this.#request = request
    const { store } = protection.instance.core
    this.#streams = required(store, store.streams, 'streams')
  }

  async serve(): Promise<Served> {
    const wanted = wantedPosition(this.#incoming)
    const pauses = this.#pauses(this.#request.at)
    for (;;) {
      const led = await this.#lead()
      if (led.kind === 'opened') return this.#own(led.opened, wanted)
      if (led.kind === 'outcome') return this.#ended(led.outcome, wanted)
      const head = await this.#attach()
      if (head) return this.#followed(head, wanted, null)
      // An attempt in this process may have lost the operation, and not have ended. Until then, nobody begins it here.
      await pauses.next()
    }
  }

  #pauses(since: number): Pauses {
    const { clock, pace } = this.#protection.instance.core
    const { endsWithinMs, route } = this.#request
    const retryAfterMs = (): number => pace.retryAfterMs(route)
    return new Pauses({ clock, left: this.#exchange.left, since, withinMs: endsWithinMs, retryAfterMs })
  }

  /** Tries to run the operation. The run goes on in the background, because the record counts, not this client. */
  async #lead(): Promise<Led> {
    const opened = deferred<Led>()
    let isOpened = false
    const run = new StreamRun(this.#protection, this.#startedOnce(), this.#incoming, this.#request, (stream) => {
      isOpened = true
      opened.resolve({ kind: 'opened', opened: stream })
    })
    this.#run = run
    const running = this.#protection
      .leased(this.#incoming, this.#request, run.produce)
      .then((outcome): Led => ({ kind: 'outcome', outcome }))
    running.catch((error: unknown) => {
      // The clients get an event. The reason is for the operator.
      if (isOpened && isOnceError(error)) this.#protection.tell(error, this.#exchange)
    })
    try {
      return await Promise.race([opened.promise, running])
    } catch (error) {
      if (isOnceError(error, 'ONCE_IN_FLIGHT')) return { kind: 'busy' }
      throw error
    }
  }

  #startedOnce(): StreamExchange<Req> {
    const start: StreamExchange<Req>['start'] = (op) => {
      if (this.#isStarted) throw interrupted()
      this.#isStarted = true
      return this.#exchange.start(op)
    }
    return { ...this.#exchange, start }
  }

  /** Waits for the head of the running operation. Null: nobody runs it any more. */
  async #attach(): Promise<(StreamHead & { readonly life: string }) | null> {
    const { store } = this.#protection.instance.core
    const { claim, at } = this.#request
    const pauses = this.#pauses(at)
    for (;;) {
      const { record } = await store.read({ id: claim.id })
      // Another request with this key may have found that it runs elsewhere, but with another body.
      if (record?.state === 'inProgress' && isMismatch(record, claim)) throw onceError('ONCE_MISMATCH')
      const head = record && (await readHead(this.#streams, { id: claim.id, life: record.life }))
      if (record && head && record.state === 'inProgress') return { ...head, life: record.life }
      if (record?.state !== 'inProgress' || (record.leaseLeftMs ?? 0) <= 0) return null
      await pauses.next()
    }
  }

  async #own({ life, head, headers, isTakenOver }: Opened, wanted: WantedPosition): Promise<Served> {
    if (isTakenOver) return this.#followed({ ...head, life }, wanted, null)
    if ('eventId' in wanted || wanted.offset > 0)
      throw onceError('ONCE_STREAM_POSITION', { detail: 'The stream began with this request' })
    return this.#stream({ ...head, headers, life }, 0, true)
  }

  /** The operation has ended, now or earlier. */
  async #ended(outcome: Outcome, wanted: WantedPosition): Promise<Served> {
    const { answer } = outcome
    if (endOf(answer)) {
      const { record } = await this.#protection.instance.core.store.read({ id: this.#request.claim.id })
      // The answer may come from memory, although another process has erased the operation.
      if (!record || isErased(record)) throw onceError('ONCE_GONE')
      return this.#followed({ ...answer, life: record.life }, wanted, answer)
    }
    const whole = this.#run?.whole
    if (!outcome.replayed) return { kind: 'answer', answer: whole ?? answer, isOwn: whole !== undefined }
    const replayed = await this.#protection.replay(this.#incoming, this.#request, outcome)
    return { kind: 'answer', answer: replayed, isOwn: false }
  }

  async #followed(
    head: StreamHead & { readonly life: string },
    wanted: WantedPosition,
    ended: Answer | null,
  ): Promise<Served> {
    const { status, headers, life } = head
    const outcome = { answer: { status, headers, body: null, kept: true }, replayed: true }
    const { answer, refused } = await this.#protection.replayOrRefuse(this.#incoming, this.#request, outcome)
    if (refused) return { kind: 'answer', answer, isOwn: false }
    const from = await positionIn(this.#streams, { id: this.#request.claim.id, life }, wanted, ended)
    return this.#stream({ ...answer, life }, from, false)
  }

  #stream({ status, headers, life }: StreamHead & { readonly life: string }, from: number, isOwn: boolean): Served {
    const { store, clock, inFlight } = this.#protection.instance.core
    const parts = { store, clock, streams: this.#streams, live: inFlight.streams, signal: this.#exchange.left }
    const reader = new StreamReader(parts, { id: this.#request.claim.id, life, from })
    const plain = headers.filter(([name]) => !/^(content-length|transfer-encoding)$/i.test(name))
    const body = this.#body(reader, framingOf({ headers: plain.map(([name, value]) => [name.toLowerCase(), value]) }))
    return { kind: 'stream', status, headers: [...plain, [STREAM_OFFSET, String(from)]], body, isOwn }
  }

  async *#body(reader: StreamReader, framing: Framing): AsyncGenerator<Uint8Array, void, undefined> {
    const { clock } = this.#protection.instance.core
    const { left, startsLate } = this.#exchange
    let pauses: Pauses | undefined
    let problem: unknown
    try {
      for (;;) {
        const step = await reader.next()
        if (left.aborted) return
        if (step.kind === 'bytes') {
          pauses = undefined
          yield step.bytes
        }
        // A failed stream has its end frame among its bytes, unless it has no frames.
        else if (step.kind === 'ended' && !(step.failed && framing === 'bytes')) return
        else if (step.kind !== 'lapsed' || this.#isStarted || !startsLate) break
        else if ((await this.#lead()).kind === 'busy') await (pauses ??= this.#pauses(clock.now())).next()
      }
    } catch (error) {
      if (left.aborted) return
      problem = error
      this.#protection.tell(error, this.#exchange)
    }
    if (framing === 'bytes') throw interrupted(problem)
    yield endFrame(framing, interrupted(problem), { docs: this.#protection.route.docs }, reader.position)
  }
}
