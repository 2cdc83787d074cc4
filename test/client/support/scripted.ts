import { clientWith } from '../../../src/client/client.ts'
import type { Seams } from '../../../src/client/retries.ts'
import type { ClientOptions, IdempotentClient } from '../../../src/client/types.ts'

/** Time that passes only while everybody waits. */
export class VirtualTime implements Seams {
  nowMs = 1_000_000
  /** The pauses and time limits that passed. */
  readonly passed: number[] = []
  readonly #timers = new Set<{ readonly at: number; readonly ms: number; readonly callback: () => void }>()
  readonly #turnMs: number
  #isTurning = false
  #uuids = 0

  /** Work that takes longer than `turnMs` lets virtual time pass. */
  constructor(turnMs = 5) {
    this.#turnMs = turnMs
  }

  readonly timeOfDay = (): number => this.nowMs
  readonly random = { next: (): number => 0.5, uuid: (): string => `uuid-${++this.#uuids}` }
  readonly clock = {
    now: (): number => this.nowMs,
    after: (ms: number, callback: () => void): (() => void) => {
      const timer = { at: this.nowMs + ms, ms, callback }
      this.#timers.add(timer)
      this.#turn()
      return () => void this.#timers.delete(timer)
    },
  }

  /** Fires the next timer after all work that is ready. */
  #turn(): void {
    if (this.#isTurning) return
    this.#isTurning = true
    setTimeout(() => {
      this.#isTurning = false
      const [next] = [...this.#timers].toSorted((a, b) => a.at - b.at)
      if (!next) return
      this.#timers.delete(next)
      this.nowMs = Math.max(this.nowMs, next.at)
      this.passed.push(next.ms)
      next.callback()
      if (this.#timers.size > 0) this.#turn()
    }, this.#turnMs)
  }
}

export interface Sent {
  readonly url: string
  readonly key: string | null
  readonly headers: Headers
  readonly body: string
}

type Step = Response | Error | 'hang' | ((sent: Sent) => Response | Promise<Response>)

export interface Scripted {
  readonly client: IdempotentClient
  readonly sent: Sent[]
  readonly time: VirtualTime
}

/** A client whose server answers these steps in turn, and then 201 for ever. */
export function scripted(
  steps: readonly Step[],
  options: ClientOptions = {},
  time: VirtualTime = new VirtualTime(),
): Scripted {
  const sent: Sent[] = []
  const left = [...steps]
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const headers = new Headers(init.headers)
    if (url.endsWith('/.well-known/idempotency-key'))
      return options.policy === undefined ? new Response('', { status: 404 }) : policyPage
    const now = { url, key: headers.get('idempotency-key'), headers, body: await new Response(init.body).text() }
    sent.push(now)
    const step = left.shift() ?? answer(201, { id: 7 })
    if (step === 'hang') return new Promise(() => {})
    if (step instanceof Error) throw step
    return typeof step === 'function' ? step(now) : step
  }
  const policyPage = Response.json({ retention: { replayFor: 60, goneFor: 0, afterReplay: 'rerun' } })
  return { client: clientWith({ fetch, ...options }, time), sent, time }
}

export function answer(status: number, body: unknown = {}, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status, headers })
}

/** An error of this package, as its servers send it. */
export function problem(status: number, code: string, headers: Record<string, string> = {}): Response {
  return answer(status, { code, detail: `about ${code}`, status }, { 'idempotency-key': 'k', ...headers })
}

export const PAY = 'https://shop.example/charges'
export const post = (body: unknown = { amount: 5 }): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})
