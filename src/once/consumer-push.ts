import { runRedrives } from '../dead-letter/redrive/redriver.ts'
import { onceError, problemTypeOf, type OnceCode, type OnceError } from '../errors.ts'
import { Arrival, keyOf } from '../inbox/arrival.ts'
import { CONSUMER_BUSY_MS } from '../limits.ts'
import type { Delivery, PushedRequest, PushedSource } from '../source/source.ts'
import type { ConsumerParts } from './consumer-parts.ts'
import type { PushedAnswer, PushedConsumer } from './consumer-types.ts'
import { workOn, type Result } from './consumer-work.ts'

/** Requests that wait for one of `concurrency` places; more are turned away, and the provider calls again. */
const WAITING_MAX = 1_000
const AGAIN_MAX = 5

/** A consumer that a provider calls. The answer settles the delivery: 2xx, and it does not come again. */
export function createPushedConsumer<Tx>(parts: ConsumerParts<Tx>, prepare: () => Promise<void>): PushedConsumer {
  const { core, settings } = parts
  const source = settings.from as PushedSource<unknown>
  const { name, concurrency } = settings
  let ready: Promise<void> | undefined
  let stopped = false
  let redriving: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined
  let active = 0
  const running = new Set<Promise<unknown>>()
  const waiting: (() => void)[] = []

  const enter = async (): Promise<boolean> => {
    if (active >= concurrency) {
      if (waiting.length >= WAITING_MAX) return false
      await new Promise<void>((resolve) => waiting.push(resolve))
    }
    active++
    return true
  }
  const leave = (): void => {
    active--
    waiting.shift()?.()
  }

  async function process(delivery: Delivery): Promise<Result> {
    const options = { delivery, consumer: name, seq: 0, at: core.clock.now() }
    const arrival = new Arrival({ ...options, ...keyOf(settings.key, delivery) })
    for (let again = 0; ; again++) {
      const result = (await workOn(parts, [arrival])).get(arrival) as Result
      if (result.kind !== 'again' || again >= AGAIN_MAX) return result
    }
  }

  const consumer: PushedConsumer = {
    name,
    async start() {
      stopped = false
      await (ready ??= prepare().catch((error: unknown) => {
        ready = undefined
        throw error
      }))
      if (redriving === undefined && !stopped) {
        const stop = new AbortController()
        redriving = { stop, ended: runRedrives(parts, stop.signal) }
      }
      return consumer
    },
    async stop() {
      stopped = true
      await Promise.all(running)
    },
    drain: async () => 0,
    [Symbol.asyncDispose]: () => consumer.stop(),
    async receive(request: PushedRequest): Promise<PushedAnswer> {
      const pushed = source.receive(request)
      if (pushed.kind === 'refused') return problem(onceError(pushed.code, { detail: pushed.detail }))
      if (pushed.kind === 'answer') return { status: pushed.status, headers: {}, body: pushed.body ?? '' }
      if (stopped || core.closed) return problem(onceError('ONCE_CLOSED', { retryAfterMs: 1_000 }), 503)
      try {
        // A route may be mounted without a start: the first request makes up for it.
        await (ready === undefined ? consumer.start() : ready)
      } catch (error) {
        return problem(onceError('ONCE_STORE_UNAVAILABLE', { cause: error, retryAfterMs: 1_000 }))
      }
      if (!(await enter())) return problem(onceError('ONCE_QUEUE_FULL', { retryAfterMs: 1_000 }))
      const work = process(pushed.delivery).finally(leave)
      running.add(work)
      try {
        return answerTo(parts, pushed.delivery, await work)
      } finally {
        running.delete(work)
      }
    },
  }
  return consumer
}

function answerTo<Tx>({ core, settings }: ConsumerParts<Tx>, { type }: Delivery, result: Result): PushedAnswer {
  const { observe } = core.settings
  const consumer = settings.name
  switch (result.kind) {
    case 'settled': {
      if (result.parked) {
        const { reason, letter } = result.parked
        observe({ kind: 'deadLetter', consumer, type, reason, fingerprint: letter.fingerprint })
        if (reason === 'unreadable') return problem(onceError('ONCE_BODY_INVALID', { detail: letter.error ?? '' }))
      }
      observe({ kind: 'consumed', consumer, messages: 1, applied: result.applied ? 1 : 0 })
      return { status: 200, headers: { 'content-type': 'application/json' }, body: '{"received":true}' }
    }
    case 'busy':
    case 'early':
    case 'again':
      return problem(onceError('ONCE_IN_FLIGHT', { retryAfterMs: CONSUMER_BUSY_MS * 4 }))
    case 'retry':
      observe({ kind: 'failed', consumer, type, attempts: result.attempts, fingerprint: '', error: result.error })
      return problem(onceError('ONCE_CONFLICT', { detail: 'The event was not applied; send it again' }), 500)
    default:
      observe({ kind: 'troubled', task: 'consumer', error: result.error })
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
