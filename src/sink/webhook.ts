import { milliseconds, type Duration } from '../duration.ts'
import {
  WEBHOOK_ANSWER_BYTES_MAX,
  WEBHOOK_CONCURRENCY_DEFAULT,
  WEBHOOK_CONCURRENCY_MAX,
  WEBHOOK_TIMEOUT_MS_DEFAULT,
  WEBHOOK_TIMEOUT_MS_MAX,
} from '../limits.ts'
import { invalid, wholeNumber } from '../options.ts'
import { cloudEventJson, SENT, traceHeaders, type OutgoingEvent, type Sink, type Verdict } from './sink.ts'
import { secretBytes, signatureOf } from './webhook-signature.ts'

export interface WebhookOptions {
  url: string
  /** One secret, or several while the receiver rotates its secret. */
  secret: string | readonly string[]
  /** Names the destination. Default: the address without its query */
  name?: string
  headers?: Readonly<Record<string, string>>
  /** The time limit of one request. Default '10s' */
  timeout?: Duration
  /** Requests at a time. Default 16 */
  concurrency?: number
  /**
   * Statuses after which an event is not tried again, because the receiver's verdict is final. Any other refusal may
   * come from a load balancer or a deployment. The relay tries the event again until its attempts are spent. Default
   * [400, 410, 422]
   */
  finalStatuses?: readonly number[]
  fetch?: (url: string, init: RequestInit) => Promise<Response>
}

/**
 * Sends each event as one signed request (Standard Webhooks), in CloudEvents' structured mode. `Idempotency-Key` is the
 * event's id, so a receiver behind our own middleware applies it once.
 */
export function webhookSink(options: WebhookOptions): Sink {
  const url = checkUrl(options?.url)
  const secrets = [options.secret].flat().map(secretBytes)
  if (secrets.length === 0) throw invalid('webhookSink() needs a secret')
  const extra = checkHeaders(options.headers)
  const limits = { option: 'timeout', min: 1, max: WEBHOOK_TIMEOUT_MS_MAX }
  const timeoutMs = milliseconds(options.timeout, WEBHOOK_TIMEOUT_MS_DEFAULT, limits)
  const concurrency = options.concurrency ?? WEBHOOK_CONCURRENCY_DEFAULT
  wholeNumber('concurrency', concurrency, WEBHOOK_CONCURRENCY_MAX)
  const finals = checkFinals(options.finalStatuses)
  const request = options.fetch ?? ((to, init) => fetch(to, init))

  async function post(event: OutgoingEvent, signal: AbortSignal): Promise<Attempted> {
    let init: RequestInit
    try {
      init = requestOf(event)
    } catch (error) {
      // Only this event fails.
      return { verdict: { kind: 'failed', error, retryable: true }, unreachable: false }
    }
    const limit = new TimeLimit(timeoutMs, signal)
    try {
      const response = await request(url.href, { ...init, signal: limit.signal })
      // The verdict is known. Read the rest in the background: a connection is reused only after its whole answer was
      // read.
      if (response.body) void passOver(response.body).finally(() => limit.end())
      else limit.end()
      return { verdict: judge(response.status, finals), unreachable: false }
    } catch (error) {
      limit.end()
      const verdict: Verdict = { kind: 'failed', error, retryable: true, perhapsDown: true }
      // A receiver that is slow with one event may serve the others.
      return { verdict, unreachable: !limit.isOver }
    }
  }

  function requestOf(event: OutgoingEvent): RequestInit {
    const body = cloudEventJson(event)
    const timestamp = String(Math.floor(Date.now() / 1000))
    const headers = {
      ...extra,
      'content-type': 'application/cloudevents+json; charset=utf-8',
      'idempotency-key': event.brokerId,
      'webhook-id': event.brokerId,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatureOf(secrets, { id: event.brokerId, timestamp, body }),
      ...traceHeaders(event),
    }
    // A redirect would carry the signed event to somebody else.
    return { method: 'POST', headers, body, redirect: 'manual' }
  }

  return {
    name: options.name ?? `webhook ${url.origin}${url.pathname}`,
    proves: 'accepted',
    dedupes: false,
    orders: false,
    batch: 1,
    concurrency,
    async send(events, { signal, told }) {
      const attempted: Attempted[] = []
      let next = 0
      const worker = async (): Promise<void> => {
        for (let i = next++; i < events.length; i = next++) {
          const attempt = await post(events[i] as OutgoingEvent, signal)
          attempted[i] = attempt
          if (!attempt.unreachable) told?.(i, attempt.verdict)
        }
      }
      await Promise.all(Array.from({ length: Math.min(concurrency, events.length) }, worker))
      const [first] = attempted
      // All events failed as if the receiver were down, so no event loses an attempt. Verdicts that `told` reported
      // still count.
      if (first?.verdict.kind === 'failed' && attempted.every(({ verdict }) => looksDown(verdict))) {
        throw first.verdict.error
      }
      return attempted.map(({ verdict }) => verdict)
    },
  }
}

/**
 * Aborts a request at its time limit, or with the relay. `AbortSignal.timeout` and `AbortSignal.any` do the same, with two
 * more signals for each request: a tenth of what a quick request costs.
 */
class TimeLimit {
  readonly #controller = new AbortController()
  readonly #beside: Set<TimeLimit>
  readonly #timer: ReturnType<typeof setTimeout>
  isOver = false

  constructor(ms: number, outer: AbortSignal) {
    this.#beside = limitsOf(outer)
    this.#beside.add(this)
    this.#timer = setTimeout(() => {
      this.isOver = true
      this.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
    }, ms)
    this.#timer.unref?.()
    if (outer.aborted) this.abort(outer.reason)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#beside.delete(this)
  }
}

const running = new WeakMap<AbortSignal, Set<TimeLimit>>()

/** The limits that end with this signal. It has one listener for all of them, because Node warns of more than ten. */
function limitsOf(outer: AbortSignal): Set<TimeLimit> {
  const known = running.get(outer)
  if (known) return known
  const limits = new Set<TimeLimit>()
  running.set(outer, limits)
  outer.addEventListener('abort', () => {
    for (const limit of limits) limit.abort(outer.reason)
  })
  return limits
}

/** Ends at the request's own time limit, or when the answer is too large. */
async function passOver(body: AsyncIterable<Uint8Array>): Promise<void> {
  let left = WEBHOOK_ANSWER_BYTES_MAX
  try {
    for await (const { byteLength } of body) if ((left -= byteLength) < 0) break
  } catch {
    // The body is not used.
  }
}

interface Attempted {
  readonly verdict: Verdict
  /** The receiver did not answer, and will not. */
  readonly unreachable: boolean
}

const FINAL_STATUSES_DEFAULT: readonly number[] = [400, 410, 422]
/**
 * A load balancer without a backend answers 404 or 421. But if only one event gets such an answer, that event may be at
 * fault.
 */
const DOWN = new Set([404, 421, 429, 502, 503, 504])

function looksDown(verdict: Verdict): boolean {
  return verdict.kind === 'failed' && verdict.perhapsDown === true
}

function judge(status: number, finals: ReadonlySet<number>): Verdict {
  if (status >= 200 && status < 300) return SENT
  const retryable = !finals.has(status)
  const error = new Error(`the webhook was answered with status ${status}`)
  return { kind: 'failed', error, retryable, perhapsDown: retryable && DOWN.has(status) }
}

function checkFinals(statuses: readonly number[] = FINAL_STATUSES_DEFAULT): ReadonlySet<number> {
  const isFinal = (status: unknown): boolean =>
    Number.isInteger(status) && Number(status) >= 300 && Number(status) < 600
  if (Array.isArray(statuses) && statuses.every(isFinal)) return new Set(statuses)
  throw invalid('finalStatuses must be a list of statuses from 300 to 599')
}

/**
 * Refuses headers with which no request can be made, because every event would fail. The names come back in lower case,
 * so that the sink's own headers replace them.
 */
function checkHeaders(headers: Readonly<Record<string, string>> | undefined): Readonly<Record<string, string>> {
  try {
    return Object.fromEntries(new Headers(headers))
  } catch (cause) {
    throw invalid('webhookSink({ headers }) has a header that cannot be sent', cause)
  }
}

function checkUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') {
    throw invalid('webhookSink({ url }) needs an http or https address')
  }
  if (url.username === '' && url.password === '') return url
  throw invalid('webhookSink({ url }) cannot hold a user or a password: put them into headers.authorization')
}
