import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { timeOf } from './violations.ts'

export const HOOK_SECRET = 'whsec_d2VhdGhlci13ZWF0aGVyLXdlYXRoZXI='

/** A status, or no response at all. */
export type Refusal = 429 | 500 | 503 | 'hang'

/** One call: when it arrived, and how it was answered. */
interface Answered {
  readonly event: string
  readonly at: number
  readonly answer: number | 'hang'
  /** The process that made the call. */
  readonly by: string
}

/** The receiver of webhooks. It records every call, and can be slow or refuse one event. */
export class Hook {
  /** The events in the order of their first successful call. */
  readonly first = new Map<string, { readonly aggregate: string; readonly at: number; readonly by: string }>()
  readonly calls: Answered[] = []
  #delayMs = 0
  #refusal: Refusal | undefined
  #refused: { readonly event: string; readonly aggregate: string } | undefined
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response))
    this.#server.keepAliveTimeout = 60_000
  }

  static async open(): Promise<Hook> {
    const hook = new Hook()
    hook.#server.listen(0, '127.0.0.1')
    await once(hook.#server, 'listening')
    return hook
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/events`
  }

  /** Describes every call of an event, for debugging. */
  told(event: string): string[] {
    const own = this.calls.filter((call) => call.event === event)
    return own.map(({ at, answer, by }) => `called ${timeOf(at)} by ${by}: ${answer}`)
  }

  get callsPerEvent(): number {
    return this.first.size === 0 ? 0 : Math.round((this.calls.length / this.first.size) * 1_000) / 1_000
  }

  slow(delayMs: number): void {
    this.#delayMs = delayMs
  }

  /** Refuses the next event that arrives, and its retries, until `accept` is called. Its aggregate waits. */
  refuse(how: Refusal): void {
    this.#refused = undefined
    this.#refusal = how
  }

  /** The refused event and its aggregate, once one has arrived. */
  get refused(): { readonly event: string; readonly aggregate: string } | undefined {
    return this.#refused
  }

  accept(): void {
    this.#refusal = undefined
    this.#refused = undefined
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on('error', () => {})
    try {
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part as Buffer)
      const at = Date.now()
      const { id, subject } = JSON.parse(Buffer.concat(parts).toString()) as { id: string; subject: string }
      if (this.#refusal !== undefined && this.#refused === undefined && !this.first.has(id)) {
        this.#refused = { event: id, aggregate: subject }
      }
      if (this.#delayMs > 0) await sleep(this.#delayMs)
      const answer = this.#refused?.event === id ? (this.#refusal ?? 503) : 204
      const by = request.url?.split('?')[1] ?? ''
      this.calls.push({ event: id, at, answer, by })
      if (answer === 204 && !this.first.has(id)) this.first.set(id, { aggregate: subject, at: Date.now(), by })
      if (answer !== 'hang') response.writeHead(answer).end()
    } catch {
      // The caller has closed the connection.
      response.destroy()
    }
  }
}
