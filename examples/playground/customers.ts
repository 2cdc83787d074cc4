/** The customers. Each wants one charge, and retries with the same key until there is an answer. */
import { request } from 'node:http'
import type { Intent, Outcome, RequestMade } from './intent.ts'
import type { Faults, Vertices } from './settings.ts'

const ANSWER_MS = 8_000
const ATTEMPTS_MAX = 400
const OPEN_MAX = 60
const REQUESTS_KEPT = 40
const LOST_SHARE = 0.5
const STORM_COPIES = 4
const PAUSE_MS = { calm: 250, storm: 40 }

export interface CustomersOptions {
  /** Where the shop listens. */
  port(): number
  faults(): Faults
}

export class Customers {
  readonly counts = { requests: 0, replays: 0, conflicts: 0 }
  readonly #options: CustomersOptions
  readonly #changed = new Set<Intent>()
  readonly #stop = new AbortController()
  #open = 0
  #number = 0

  constructor(options: CustomersOptions) {
    this.#options = options
  }

  /** How many intents have no answer yet. */
  get open(): number {
    return this.#open
  }

  /** Starts one intent. Returns undefined if too many are open already. */
  begin(round: number, vertices: Vertices): Intent | undefined {
    if (this.#open >= OPEN_MAX) return undefined
    const intent: Intent = {
      causation: `op-${String(++this.#number).padStart(4, '0')}`,
      round,
      vertices,
      amount: 100 + (this.#number % 9) * 100,
      madeAt: Date.now(),
      requests: [],
      requestCount: 0,
      replays: 0,
      conflicts: 0,
      answeredAt: null,
    }
    this.#changed.add(intent)
    this.#open++
    void this.#pursue(intent).finally(() => this.#open--)
    return intent
  }

  /** Intents that changed since the last call. */
  changes(): readonly Intent[] {
    const changed = [...this.#changed]
    this.#changed.clear()
    return changed
  }

  close(): void {
    this.#stop.abort()
  }

  async #pursue(intent: Intent): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS_MAX && !this.#stop.signal.aborted; attempt++) {
      const { retryStorm } = this.#options.faults()
      const copies = retryStorm ? STORM_COPIES : 1
      const outcomes = await Promise.all(Array.from({ length: copies }, () => this.#ask(intent)))
      if (intent.answeredAt !== null) {
        // In a retry storm, something on the way (a proxy, a queue, a double click) repeats the request.
        if (retryStorm) await this.#pause('storm').then(() => this.#ask(intent))
        return
      }
      const isDown = outcomes.every((outcome) => outcome === 'failed')
      await this.#pause(retryStorm && !isDown ? 'storm' : 'calm')
    }
  }

  async #ask(intent: Intent): Promise<Outcome> {
    const isLost = this.#options.faults().lostResponses && Math.random() < LOST_SHARE
    intent.requestCount++
    this.counts.requests++
    const at = Date.now()
    const { outcome, status } = await this.#send(intent, isLost)
    if (outcome === 'replayed') this.counts.replays++
    if (outcome === 'replayed') intent.replays++
    if (outcome === 'conflict') this.counts.conflicts++
    if (outcome === 'conflict') intent.conflicts++
    if (outcome === 'ran' || outcome === 'replayed') intent.answeredAt ??= Date.now()
    if (intent.requests.length < REQUESTS_KEPT) {
      intent.requests.push({ at, endedAt: Date.now(), outcome, ...(status === undefined ? {} : { status }) })
    }
    this.#changed.add(intent)
    return outcome
  }

  /** One request over the network. A lost answer was sent by the shop, but not received by the customer. */
  #send(intent: Intent, isLost: boolean): Promise<Omit<RequestMade, 'at' | 'endedAt'>> {
    const { causation, round, amount, vertices } = intent
    const body = JSON.stringify({ causation, round, amount })
    return new Promise((resolve) => {
      const sent = request({
        host: '127.0.0.1',
        port: this.#options.port(),
        path: '/charges',
        method: 'POST',
        agent: false,
        signal: AbortSignal.any([this.#stop.signal, AbortSignal.timeout(ANSWER_MS)]),
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          ...(vertices.key ? { 'idempotency-key': causation } : {}),
          ...(vertices.outbox ? {} : { 'x-outbox': 'off' }),
        },
      })
      sent.on('response', (answer) => {
        if (isLost) {
          sent.destroy()
          return resolve({ outcome: 'lost' })
        }
        answer.resume()
        const status = answer.statusCode ?? 0
        resolve({ outcome: outcomeOf(status, answer.headers['idempotent-replayed'] === 'true'), status })
      })
      sent.on('error', () => resolve({ outcome: 'failed' }))
      sent.end(body)
    })
  }

  #pause(mood: keyof typeof PAUSE_MS): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, PAUSE_MS[mood] * (0.5 + Math.random())))
  }
}

function outcomeOf(status: number, replayed: boolean): Outcome {
  if (status === 201) return replayed ? 'replayed' : 'ran'
  if (status === 409) return 'conflict'
  return status >= 500 ? 'failed' : 'refused'
}
