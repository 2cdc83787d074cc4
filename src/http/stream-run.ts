import { isOnceError, onceError, type OnceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { ANSWER_HELD_BYTES_MAX } from '../limits.ts'
import { isFinal } from '../operation/final.ts'
import type { LeasedProduce, LeasedTools } from '../operation/leased.ts'
import type { Finish, Outcome, Produced } from '../operation/outcome.ts'
import type { Request } from '../operation/request.ts'
import type { Operation, StreamOperation } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import { required } from '../store/lacking.ts'
import { withId } from '../stream/event-frame.ts'
import { framingOf, joined } from '../stream/framing.ts'
import { type StreamHead, withEnd } from '../stream/head.ts'
import { StreamWriter } from '../stream/stream-writer.ts'
import { NOTHING_WRITTEN, readHead, readWritten } from '../stream/written.ts'
import { isBodyless } from './body-fit.ts'
import { type HeaderPairs, storedHeaders } from './headers.ts'
import type { Incoming } from './incoming.ts'
import { fateOfAnswer, type HandlerEnd, type ProtectedRoute } from './protected-route.ts'
import type { About } from './report.ts'
import { toStored, unmarked } from './stored.ts'
import { endFrame, interrupted, streamFailed } from './stream-end.ts'
import { untilAborted } from './until-aborted.ts'

/** The answer of a handler, from the moment at which its status and headers are known. */
export interface Started {
  readonly status: number
  /** All headers. Only some of them are recorded. */
  readonly headers: HeaderPairs
  readonly handlerEnd: HandlerEnd
  readonly body: AsyncIterable<Uint8Array>
}

/** One request to a route with recorded streams, in the words of an adapter. */
export interface StreamExchange<Req> extends About<Req> {
  /** Calls the handler. Resolves when status and headers are known. Called at most once. */
  // oxlint-disable-next-line no-explicit-any -- each adapter types it for its users
  start(op: StreamOperation<any, Events>): Promise<Started>
  /** The handler may also be called while the answer is being sent. */
  readonly startsLate: boolean
  /** Aborts when the client has left. The producer goes on. */
  readonly left: AbortSignal
}

/** The stream of this request's own handler. */
export interface Opened {
  readonly life: string
  /** In its stored form. */
  readonly head: StreamHead
  /** All headers of the handler's answer. */
  readonly headers: HeaderPairs
  /** An earlier attempt wrote the head. */
  readonly isTakenOver: boolean
}

/** Produces a recorded stream: it records what the handler writes, and ends the operation with the stream. */
export class StreamRun<Tx, E extends Events, Req> {
  readonly #protection: ProtectedRoute<Tx, E, Req>
  readonly #exchange: StreamExchange<Req>
  readonly #incoming: Incoming<Req>
  readonly #request: Request
  readonly #opened: (stream: Opened) => void
  #atEnd: AtEnd<Tx> | undefined
  /** The handler's answer, with all of its headers, if it was no stream. */
  whole: Answer | undefined

  constructor(
    protection: ProtectedRoute<Tx, E, Req>,
    exchange: StreamExchange<Req>,
    incoming: Incoming<Req>,
    request: Request,
    opened: (stream: Opened) => void,
  ) {
    this.#protection = protection
    this.#exchange = exchange
    this.#incoming = incoming
    this.#request = request
    this.#opened = opened
  }

  readonly produce: LeasedProduce<Tx> = async (tools) => {
    const { route, instance } = this.#protection
    const { store, inFlight, clock } = instance.core
    const streams = required(store, store.streams, 'streams')
    const { id, life } = tools.holder
    const isFirst = tools.op.attempt === 1
    const recorded = isFirst ? null : await readHead(streams, { id, life })
    const written = recorded ? await readWritten(streams, { id, life }) : NOTHING_WRITTEN
    if (recorded && written.bytes > 0 && !route.resume)
      return this.#conclude(tools, recorded, written.bytes, streamFailed(), EMPTY)
    const op = Object.create(tools.op, {
      written: { value: written, enumerable: true },
      atEnd: { value: (work: unknown) => this.#register(work), enumerable: true },
    }) as StreamOperation<Tx, Events>
    // The next attempt in this process waits until this one has ended, also if the handler ignores its signal.
    const started = await untilAborted(op.signal, this.#exchange.start(op))
    const fate = fateOfAnswer(started, route, started.handlerEnd)
    if (fate !== 'complete') return this.#refused(tools, started, fate, recorded, written.bytes)
    if (!recorded && isBodyless(started.status)) return this.#bodyless(tools, started)
    const head = recorded ?? (await this.#headOf(started))
    const live = inFlight.streams.open(id, life, written.bytes)
    let state: 'ended' | 'broken' = 'broken'
    try {
      const parts = { streams, clock, live, holder: tools.holder }
      const writer = new StreamWriter(parts, framingOf(head), written.bytes)
      if (!recorded) await writer.begin(head)
      this.#opened({ life, head, headers: started.headers, isTakenOver: recorded !== null })
      const finish = await this.#write(tools, head, writer, started.body)
      state = 'ended'
      return finish
    } finally {
      inFlight.streams.close(id, live, state)
    }
  }

  #register(work: unknown): void {
    if (typeof work !== 'function') throw onceError('ONCE_OPTION_INVALID', { detail: 'atEnd() needs a function' })
    if (this.#atEnd) throw onceError('ONCE_STEP_INVALID', { detail: 'atEnd was called twice' })
    this.#atEnd = work as AtEnd<Tx>
  }

  async #headOf({ status, headers }: Started): Promise<StreamHead> {
    const { route } = this.#protection
    const kept = storedHeaders(headers, route.kept, this.#incoming.header)
    return toStored(route, this.#request, { status, headers: kept, body: null, kept: true })
  }

  async #write(
    tools: LeasedTools<Tx>,
    head: StreamHead,
    writer: StreamWriter,
    body: AsyncIterable<Uint8Array>,
  ): Promise<Finish> {
    const failure = await this.#pump(tools, writer, body)
    if (!failure) {
      const { whole, rest } = await writer.end()
      try {
        return await this.#conclude(tools, head, writer.committed, null, joined([whole, rest]))
      } catch (error) {
        if (!(error instanceof AtEndFailed)) throw error
        if (!this.#fails(error.cause)) throw error.cause
        // The frame of the failure needs a place of its own, so it cannot stand behind half a frame.
        return this.#conclude(tools, head, writer.committed, streamFailed(error.cause), whole)
      }
    }
    await writer.drain()
    return this.#conclude(tools, head, writer.committed, failure, EMPTY)
  }

  /** Records everything that the handler writes. Returns why the stream has failed for good. */
  async #pump(
    tools: LeasedTools<Tx>,
    writer: StreamWriter,
    body: AsyncIterable<Uint8Array>,
  ): Promise<OnceError | null> {
    const iterator = body[Symbol.asyncIterator]()
    const { signal } = tools.op
    let cut = (): void => {}
    const stop = (): void => {
      void iterator.return?.().catch(() => {})
      if (signal.aborted) cut()
    }
    // A handler that stalls and does not watch its signal writes nothing more, so its next bytes are not waited for.
    // Each wait has its own promise: one promise for all of them would keep every chunk until it settles.
    const nextOrCut = (): Promise<IteratorResult<Uint8Array> | { readonly error: unknown }> =>
      new Promise((resolve, reject) => {
        cut = () => reject(signal.reason as Error)
        if (signal.aborted) cut()
        else iterator.next().then(resolve, (error: unknown) => resolve({ error }))
      })
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    try {
      for (;;) {
        const next = await nextOrCut()
        if ('error' in next) {
          if (this.#fails(next.error)) return streamFailed(next.error)
          // The next attempt goes on behind what is recorded.
          await writer.drain()
          throw next.error
        }
        tools.holder.check()
        // The body was cut off, so its end is not the end of the stream.
        if (signal.aborted) throw signal.reason
        if (next.done === true) return null
        try {
          await writer.write(next.value)
        } catch (error) {
          stop()
          const isInvalid = isOnceError(error, 'ONCE_ANSWER_TOO_LARGE') || isOnceError(error, 'ONCE_ANSWER_INVALID')
          if (!isInvalid) throw error
          this.#protection.tell(error, this.#exchange)
          return streamFailed(error)
        }
      }
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  /** Whether an error of the handler ends the stream for good. Otherwise the next attempt appends. */
  #fails(error: unknown): boolean {
    if (!isOnceError(error)) this.#protection.tell(error, this.#exchange)
    return isFinal(error) || !this.#protection.route.resume
  }

  /** Without a body, the answer is no stream. It leaves after its commit, so its failure can be answered. */
  async #bodyless(tools: LeasedTools<Tx>, { status, headers, body }: Started): Promise<Finish> {
    await untilAborted(tools.op.signal, collected(body))
    const plain = headers.filter(([name]) => !/^(content-length|transfer-encoding)$/i.test(name))
    this.whole = { status, headers: plain, body: null, kept: true }
    const answer = { ...this.whole, headers: storedHeaders(plain, this.#protection.route.kept, this.#incoming.header) }
    try {
      return { kind: 'committed', outcome: await this.#committed(tools, answer, this.#atEnd) }
    } catch (error) {
      throw error instanceof AtEndFailed ? error.cause : error
    }
  }

  /** A refusal is an answer like any other, unless a part of the stream may have left. */
  async #refused(
    tools: LeasedTools<Tx>,
    { status, headers, body }: Started,
    fate: 'refuse' | 'release',
    recorded: StreamHead | null,
    bytes: number,
  ): Promise<Finish> {
    const whole = await untilAborted(tools.op.signal, collected(body))
    if (recorded) {
      if (fate === 'release') throw interrupted()
      return this.#conclude(tools, recorded, bytes, streamFailed(), EMPTY)
    }
    this.whole = { status, headers, body: whole.byteLength === 0 ? null : whole, kept: true }
    const kept = storedHeaders(headers, this.#protection.route.kept, this.#incoming.header)
    const produced: Produced = { answer: { ...this.whole, headers: kept }, fate }
    return { kind: 'refused', produced }
  }

  /** Ends the operation together with the stream. The last bytes are the body of the stored answer. */
  async #conclude(
    tools: LeasedTools<Tx>,
    head: StreamHead,
    recorded: number,
    failure: OnceError | null,
    last: Uint8Array,
  ): Promise<Finish> {
    const framing = framingOf(head)
    const said = failure ? endFrame(framing, failure, { docs: this.#protection.route.docs }) : EMPTY
    // The frame is recorded. With its id, a client that has it does not get it again.
    const frame = failure && framing === 'events' ? withId(said, recorded + last.byteLength) : said
    const body = joined([last, frame])
    const end = { recorded, failed: failure !== null }
    const plain = unmarked({ ...head, body: null, kept: true }).headers
    const answer: Answer = { status: head.status, headers: withEnd(plain, end), body, kept: true }
    return { kind: 'committed', outcome: await this.#committed(tools, answer, failure ? undefined : this.#atEnd) }
  }

  #committed(tools: LeasedTools<Tx>, answer: Answer, atEnd: AtEnd<Tx> | undefined): Promise<Outcome> {
    return tools.commit(async (op) => {
      if (atEnd) await this.#runAtEnd(atEnd, op)
      return { answer, fate: 'complete' }
    })
  }

  async #runAtEnd(work: AtEnd<Tx>, op: Operation<Tx, Events>): Promise<void> {
    try {
      await work(op)
    } catch (error) {
      // A conflict runs again, so it must pass as it is.
      if (isOnceError(error) || this.#protection.isTransient(error)) throw error
      throw new AtEndFailed(error)
    }
  }
}

async function collected(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body) {
    parts.push(part)
    size += part.byteLength
    if (size > ANSWER_HELD_BYTES_MAX) throw onceError('ONCE_ANSWER_TOO_LARGE')
  }
  return joined(parts)
}

type AtEnd<Tx> = (op: Operation<Tx, Events>) => unknown

const EMPTY = new Uint8Array(0)

/** The work of `atEnd` failed. Its transaction is rolled back. */
class AtEndFailed extends Error {
  constructor(cause: unknown) {
    super('the work of atEnd failed', { cause })
  }
}
