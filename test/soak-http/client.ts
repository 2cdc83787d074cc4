import { randomUUID } from 'node:crypto'
import { Agent, request as httpRequest } from 'node:http'
import { type Asked, type Kind, KIND_NAMES, KINDS } from './kinds.ts'

const RECENT_MAX = 64
/** Well before an answer is gone (`replayFor` of the server), also on a machine that is held up. */
const RECENT_MS = 5_000
const TIMEOUT_MS = 10_000

/** What one load saw. */
export interface Sights {
  requests: number
  answers: number
  replays: number
  mismatches: number
  aborted: number
  /** Connections that ended without an answer, where that was right. */
  closed: number
  /** Failures that this kind of request must not have, each with its code: some come of a machine that is held up. */
  unexpected: Record<string, number>
  /** Answers that belong to another request. */
  foreign: number
  /** What no HTTP client could read. */
  malformed: number
  /** Answers that this kind of request must not get. */
  odd: Record<string, number>
  kinds: Record<string, number>
}

/** Sends requests of every kind over kept connections, and looks at every answer. */
export class Load {
  readonly views: Sights = {
    requests: 0,
    answers: 0,
    replays: 0,
    mismatches: 0,
    aborted: 0,
    closed: 0,
    unexpected: {},
    foreign: 0,
    malformed: 0,
    odd: {},
    kinds: {},
  }
  readonly #port: number
  readonly #random: () => number
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64, scheduling: 'fifo' })
  readonly #recent: { readonly key: string; readonly asked: Asked; readonly sentAt: number }[] = []

  constructor(port: number, random: () => number) {
    this.#port = port
    this.#random = random
  }

  close(): void {
    this.#agent.destroy()
  }

  /** One request, and what comes of it. */
  async turn(): Promise<void> {
    const chance = this.#random()
    while (this.#recent[0] && this.#recent[0].sentAt < performance.now() - RECENT_MS) this.#recent.shift()
    const recent = this.#recent[Math.floor(this.#random() * this.#recent.length)]
    if (recent && chance < 0.25) return this.#exchange(recent.key, recent.asked, 'again')
    if (recent && chance < 0.3) return this.#exchange(recent.key, { ...recent.asked, nonce: randomUUID() }, 'mismatch')
    const kind = KIND_NAMES[Math.floor(this.#random() ** 2 * KIND_NAMES.length)] ?? 'json'
    const [key, asked] = [randomUUID(), { kind, nonce: randomUUID() }]
    if (chance < 0.4) return this.#abort(key, asked)
    const sentAt = performance.now()
    await this.#exchange(key, asked, 'first')
    this.#recent.push({ key, asked, sentAt })
    if (this.#recent.length > RECENT_MAX) this.#recent.shift()
  }

  #exchange(key: string, asked: Asked, turn: 'first' | 'again' | 'mismatch'): Promise<void> {
    this.views.requests++
    count(this.views.kinds, asked.kind)
    const body = JSON.stringify(asked)
    return new Promise((resolve) => {
      const done = (look: () => void): void => {
        look()
        resolve()
      }
      const req = this.#request(key, body, (res) => {
        const chunks: Buffer[] = []
        res.on('data', (chunk: Buffer) => chunks.push(chunk))
        res.on('error', (error) => done(() => this.#failed(asked.kind, error)))
        res.on('end', () =>
          done(() =>
            this.#answered(key, asked, turn, res.statusCode ?? 0, res.headers, Buffer.concat(chunks).toString()),
          ),
        )
      })
      req.setTimeout(TIMEOUT_MS, () => req.destroy(new Error('no answer in time')))
      req.on('error', (error) => done(() => this.#failed(asked.kind, error)))
      req.end(body)
    })
  }

  #answered(
    key: string,
    { kind, nonce }: Asked,
    turn: 'first' | 'again' | 'mismatch',
    status: number,
    headers: NodeJS.Dict<string | string[]>,
    text: string,
  ): void {
    const { views } = this
    views.answers++
    const replayed = headers['idempotent-replayed'] === 'true'
    if (replayed) views.replays++
    const said = [headers['x-nonce'], /"nonce":"([^"]*)"/.exec(text)?.[1]].filter((each) => each !== undefined)
    const own = headers['idempotency-key'] === key && said.every((each) => each === nonce)
    // Whatever was stored, and whatever the handler said, has a nonce.
    if (!own || (status < 500 && status !== 422 && status !== 409 && said.length < 2)) views.foreign++
    if (turn === 'mismatch' && status === 422) views.mismatches++
    // A retry is refused also when the first was not stored and a request with another body was.
    const right: readonly number[] = [...KINDS[kind], 409, ...(turn === 'first' ? [] : [422])]
    if (right.includes(status)) return
    if (status >= 500) count(views.unexpected, /"code":"(ONCE_\w+)"/.exec(text)?.[1] ?? `${status} without a code`)
    else count(views.odd, `${kind} ${turn} ${status}`)
  }

  #failed(kind: Kind, error: Error & { code?: string }): void {
    if (error.code?.startsWith('HPE_')) this.views.malformed++
    else if (MAY_CLOSE.has(kind)) this.views.closed++
    // A kept connection may be gone when it is used again.
    else if (error.code === 'ECONNRESET' || error.code === 'EPIPE') this.views.closed++
    else count(this.views.odd, `${kind} ${error.code ?? error.message}`)
  }

  /** Hangs up: in the middle of its body, while the handler runs, or when the first bytes come. */
  async #abort(key: string, asked: Asked): Promise<void> {
    this.views.requests++
    this.views.aborted++
    const body = JSON.stringify(asked)
    const when = this.#random()
    const wait = Math.floor(this.#random() * 20)
    await new Promise<void>((resolve) => {
      const req = this.#request(key, body, (res) => res.destroy())
      req.on('error', () => {})
      req.on('close', resolve)
      if (when < 0.3) req.write(body.slice(0, body.length / 2))
      else req.end(body)
      if (when < 0.8) setTimeout(() => req.destroy(), wait)
    })
  }

  #request(key: string, body: string, answer: Parameters<typeof httpRequest>[2]): ReturnType<typeof httpRequest> {
    const headers = { 'idempotency-key': key, 'content-type': 'application/json', 'content-length': body.length }
    return httpRequest(
      { host: '127.0.0.1', port: this.#port, path: '/soak', method: 'POST', agent: this.#agent, headers },
      answer,
    )
  }
}

function count(counts: Record<string, number>, what: string): void {
  counts[what] = (counts[what] ?? 0) + 1
}

const MAY_CLOSE: ReadonlySet<Kind> = new Set(['killed', 'broken', 'destroyed'])
