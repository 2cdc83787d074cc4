import { runRedrives } from './redriver.ts'
import { onceError, problemTypeOf, type OnceCode, type OnceError } from '../errors.ts'
import { Arrival, keyOf } from './inbox/arrival.ts'
import { CONSUMER_BUSY_MS } from '../limits.ts'
import { RateLimit } from '../platform/rate-limit.ts'
import type { Delivery, PushedRequest, PushedSource } from '../source/source.ts'
import { endedInTime, stopMs, type ConsumerParts } from './parts.ts'
import type { PushedAnswer, PushedConsumer } from './types.ts'
import type { StoppableWork } from '../operation/core.ts'
import { isApplied, type Fate } from './fate.ts'
import { workOn } from './work.ts'

/**
 * The most requests that wait for one of `concurrency` slots. Further requests are refused, and the provider calls
 * again.
 */
const WAITING_MAX = 1_000
const AGAIN_MAX = 5

/** From a start to its stop. */
interface Run {
  readonly stop: AbortController
  /** The consumer is known to the database. */
  readonly ready: Promise<void>
  readonly redriving: Promise<void>
}

/** A consumer that a provider calls. The answer settles the delivery: 2xx, and it does not come again. */
export function createPushedConsumer<Tx>(
  parts: ConsumerParts<Tx>,
  prepare: () => Promise<void>,
): PushedConsumer & StoppableWork {
  const { core, settings, pausing } = parts
  const source = settings.from as PushedSource<unknown>
  const { name } = settings
  const slots = new RunningSlots(settings.concurrency)
  const limit = settings.rate === null ? null : new RateLimit(core.clock, settings.rate)
  const running = new Set<Promise<unknown>>()
  let stopped = false
  let run: Run | undefined

  function begin(): Run {
    const stop = new AbortController()
    const ready = prepare().catch((error: unknown) => {
      if (run === begun) run = undefined
      throw error
    })
    const redriving = ready.then(
      () => runRedrives(parts, stop.signal),
      () => {},
    )
    const begun: Run = { stop, ready, redriving }
    run = begun
    return begun
  }

  async function process(delivery: Delivery): Promise<PushedAnswer> {
    const options = { delivery, consumer: core.namespace.hashed(name), seq: 0, at: core.clock.now() }
    const arrival = new Arrival({ ...options, ...keyOf(settings.key, delivery) })
    for (let again = 0; ; again++) {
      const fate = (await workOn(parts, [arrival])).get(arrival) as Fate
      if (fate.kind !== 'again' || again >= AGAIN_MAX) return answerTo(parts, arrival, fate)
    }
  }

  const consumer: PushedConsumer & StoppableWork = {
    kind: 'consumer',
    name,
    isFed: true,
    get underWay() {
      return running.size
    },
    async start() {
      if (core.closed) throw onceError('ONCE_CLOSED')
      stopped = false
      await (run ?? begin()).ready
      return consumer
    },
    async stop(options) {
      const withinMs = stopMs(options, settings)
      stopped = true
      const ending = run
      run = undefined
      ending?.stop.abort()
      slots.turnAway()
      await endedInTime(parts, Promise.all([ending?.redriving, ...running]), withinMs)
    },
    drain: async () => 0,
    get paused() {
      return pausing.paused
    },
    pause: () => pausing.pause(),
    resume: () => pausing.resume(),
    [Symbol.asyncDispose]: () => consumer.stop(),
    async receive(request: PushedRequest): Promise<PushedAnswer> {
      const pushed = source.receive(request)
      if (pushed.kind === 'refused') return problem(onceError(pushed.code, { detail: pushed.detail }))
      if (pushed.kind === 'answer') return { status: pushed.status, headers: {}, body: pushed.body ?? '' }
      if (stopped || pausing.paused || core.closed) return away()
      if (limit && limit.allowed() < 1) return full(limit.nextInMs())
      limit?.started(1)
      // A route may be mounted without `start`. Then the first request starts the consumer.
      const { ready, stop } = run ?? begin()
      try {
        await ready
      } catch (error) {
        return problem(onceError('ONCE_STORE_UNAVAILABLE', { cause: error, retryAfterMs: 1_000 }))
      }
      if (stop.signal.aborted) return away()
      const slot = await slots.take()
      if (slot !== 'taken') return slot === 'away' ? away() : full(1_000)
      const work = process(pushed.delivery).finally(() => slots.leave())
      const ended = work.catch(() => {})
      running.add(ended)
      try {
        return await work
      } finally {
        running.delete(ended)
      }
    },
  }
  return consumer
}

function full(retryAfterMs: number): PushedAnswer {
  return problem(onceError('ONCE_QUEUE_FULL', { retryAfterMs }))
}

/** The answer of a stopped or paused consumer. The provider sends the event again. */
function away(): PushedAnswer {
  return problem(onceError('ONCE_CLOSED', { detail: 'This consumer is stopped or paused', retryAfterMs: 1_000 }), 503)
}

/** Slots for concurrent requests, and the requests that wait for a slot. */
class RunningSlots {
  #free: number
  readonly #waiting: ((slot: 'taken' | 'away') => void)[] = []

  constructor(slots: number) {
    this.#free = slots
  }

  async take(): Promise<'taken' | 'full' | 'away'> {
    if (this.#free > 0) {
      this.#free--
      return 'taken'
    }
    if (this.#waiting.length >= WAITING_MAX) return 'full'
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** The slot goes directly to the next waiting request, so that no other request can take it. */
  leave(): void {
    const next = this.#waiting.shift()
    if (next) next('taken')
    else this.#free++
  }

  turnAway(): void {
    for (const resolve of this.#waiting.splice(0)) resolve('away')
  }
}

function answerTo<Tx>({ core, settings }: ConsumerParts<Tx>, arrival: Arrival, fate: Fate): PushedAnswer {
  const { type } = arrival.delivery
  const { observe } = core.settings
  const consumer = settings.name
  switch (fate.kind) {
    case 'applied':
    case 'duplicate':
    case 'passed':
    case 'parked': {
      if (fate.kind === 'parked' && arrival.parkedAs) {
        const { reason, letter } = arrival.parkedAs
        observe({ kind: 'deadLetter', consumer, type, reason, fingerprint: letter.fingerprint })
        if (reason === 'unreadable') return problem(onceError('ONCE_BODY_INVALID', { detail: letter.error ?? '' }))
      }
      observe({ kind: 'consumed', consumer, messages: 1, applied: isApplied(fate) ? 1 : 0 })
      return { status: 200, headers: { 'content-type': 'application/json' }, body: '{"received":true}' }
    }
    case 'busy':
    case 'early':
    case 'again':
    case 'behind':
      return problem(onceError('ONCE_IN_FLIGHT', { retryAfterMs: CONSUMER_BUSY_MS * 4 }))
    case 'failed':
      observe({ kind: 'failed', consumer, type, attempts: arrival.attempts, fingerprint: '', error: fate.error })
      return problem(onceError('ONCE_CONFLICT', { detail: 'The event was not applied; send it again' }), 500)
    default:
      observe({ kind: 'troubled', task: 'consumer', error: fate.error })
      return problem(onceError('ONCE_STORE_UNAVAILABLE', { retryAfterMs: 1_000 }))
  }
}

/** RFC 9457, from the same table as every other error. */
function problem(error: OnceError, status: number = error.status): PushedAnswer {
  const code: OnceCode = error.code
  const headers: Record<string, string> = { 'content-type': 'application/problem+json' }
  if (error.retryAfterMs !== undefined) headers['retry-after'] = String(Math.ceil(error.retryAfterMs / 1_000))
  const detail = error.message.slice(code.length + 1)
  return { status, headers, body: JSON.stringify({ type: problemTypeOf(code), status, title: detail }) }
}
