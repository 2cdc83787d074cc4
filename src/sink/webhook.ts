import { milliseconds, type Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import {
  WEBHOOK_CONCURRENCY_DEFAULT,
  WEBHOOK_CONCURRENCY_MAX,
  WEBHOOK_TIMEOUT_MS_DEFAULT,
  WEBHOOK_TIMEOUT_MS_MAX,
} from '../limits.ts'
import { cloudEventJson, SENT, type OutgoingEvent, type Sink, type Verdict } from './sink.ts'
import { secretBytes, signatureOf } from './webhook-signature.ts'

export interface WebhookOptions {
  url: string
  /** One secret, or several while the receiver changes over. */
  secret: string | readonly string[]
  /** Names the destination. Default: the address without its query */
  name?: string
  headers?: Readonly<Record<string, string>>
  /** Of one request. Default '10s' */
  timeout?: Duration
  /** Requests at a time. Default 16 */
  concurrency?: number
  fetch?: (url: string, init: RequestInit) => Promise<Response>
}

/**
 * Sends each event as one signed request (Standard Webhooks), in CloudEvents' structured mode. `Idempotency-Key` is the
 * event's id, so a receiver behind our own middleware applies it once.
 */
export function webhookSink(options: WebhookOptions): Sink {
  const url = checkUrl(options.url)
  const secrets = (typeof options.secret === 'string' ? [options.secret] : options.secret).map(secretBytes)
  if (secrets.length === 0) throw onceError('ONCE_OPTION_INVALID', { detail: 'webhookSink() needs a secret' })
  const limits = { option: 'timeout', min: 1, max: WEBHOOK_TIMEOUT_MS_MAX }
  const timeoutMs = milliseconds(options.timeout, WEBHOOK_TIMEOUT_MS_DEFAULT, limits)
  const concurrency = options.concurrency ?? WEBHOOK_CONCURRENCY_DEFAULT
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > WEBHOOK_CONCURRENCY_MAX) {
    const detail = `concurrency must be a whole number from 1 to ${WEBHOOK_CONCURRENCY_MAX}`
    throw onceError('ONCE_OPTION_INVALID', { detail })
  }
  const request = options.fetch ?? ((to, init) => fetch(to, init))

  async function post(event: OutgoingEvent, signal: AbortSignal): Promise<Attempted> {
    const body = cloudEventJson(event)
    const timestamp = String(Math.floor(Date.now() / 1000))
    const headers = {
      ...options.headers,
      'content-type': 'application/cloudevents+json; charset=utf-8',
      'idempotency-key': event.brokerId,
      'webhook-id': event.brokerId,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatureOf(secrets, { id: event.brokerId, timestamp, body }),
      ...(event.traceparent === undefined ? {} : { traceparent: event.traceparent }),
    }
    try {
      const response = await request(url.href, {
        method: 'POST',
        headers,
        body,
        // A redirect would carry the signed event to somebody else.
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      })
      await response.body?.cancel()
      return judge(response.status)
    } catch (error) {
      return { verdict: { kind: 'failed', error, retryable: true }, receiverIsDown: true }
    }
  }

  return {
    name: options.name ?? `webhook ${url.origin}${url.pathname}`,
    proves: 'accepted',
    dedupes: false,
    orders: false,
    async send(events, { signal }) {
      const attempted: Attempted[] = []
      let next = 0
      const worker = async (): Promise<void> => {
        for (let i = next++; i < events.length; i = next++) {
          attempted[i] = await post(events[i] as OutgoingEvent, signal)
        }
      }
      await Promise.all(Array.from({ length: Math.min(concurrency, events.length) }, worker))
      const [first] = attempted
      // Nobody is served: that is the receiver's trouble, and counts against no event.
      if (first?.verdict.kind === 'failed' && attempted.every(({ receiverIsDown }) => receiverIsDown)) {
        throw first.verdict.error
      }
      return attempted.map(({ verdict }) => verdict)
    },
  }
}

interface Attempted {
  readonly verdict: Verdict
  /** Not this event's fault, as far as one answer can tell. */
  readonly receiverIsDown: boolean
}

/** Refusals that pass with time: in flight over there (409), too early, too many, timed out. */
const PASSING = new Set([408, 409, 425, 429])
const DOWN = new Set([429, 502, 503, 504])

function judge(status: number): Attempted {
  if (status >= 200 && status < 300) return { verdict: SENT, receiverIsDown: false }
  const retryable = status >= 500 || PASSING.has(status)
  const error = new Error(`the webhook was answered with status ${status}`)
  return { verdict: { kind: 'failed', error, retryable }, receiverIsDown: DOWN.has(status) }
}

function checkUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'https:' || url?.protocol === 'http:') return url
  throw onceError('ONCE_OPTION_INVALID', { detail: 'webhookSink({ url }) needs an http or https address' })
}
