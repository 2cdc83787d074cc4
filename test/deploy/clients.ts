import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import type { Dice } from '../../src/testing/sim/dice.ts'
import type { Order } from './shop.ts'

const CUSTOMERS = 40
const WORK_MS_MAX = 300
const AGAIN_SHARE = 0.1
const LEASED_SHARE = 0.3
const TRIES_MAX = 400
const RETRY_MS = 25
const THINK_MS = 40

/** What the clients saw. */
export interface Seen {
  requests: number
  '5xx': number
  /** Connections that were refused, or ended without an answer: the client tries again with the same key. */
  refused: number
  /** Keys whose client got two different answers, or a status that nobody expects. */
  wrong: number
  /** The answer to each key that was answered. */
  readonly answers: Map<string, string>
  /** Attempts that had no answer. The tables must not hold an effect of theirs. */
  readonly unanswered: string[]
}

/** Clients behind a round-robin list of ports. A port is taken off the list when it refuses. */
export class Clients {
  readonly seen: Seen = { requests: 0, '5xx': 0, refused: 0, wrong: 0, answers: new Map(), unanswered: [] }
  readonly ports: number[] = []
  readonly #agent = new Agent({ keepAlive: true })
  readonly #dice: Dice
  #next = 0
  #stopped = false

  constructor(dice: Dice) {
    this.#dice = dice
  }

  /** Until `stop`: each client sends one request after the other, and each key until it is answered. */
  async run(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, (_, no) => this.#client(no)))
    this.#agent.destroy()
  }

  stop(): void {
    this.#stopped = true
  }

  async #client(no: number): Promise<void> {
    for (let n = 0; !this.#stopped; n++) {
      const dice = this.#dice
      const order = { key: `c${no}-${n}`, customer: `a${dice.below(CUSTOMERS)}`, workMs: dice.below(WORK_MS_MAX) }
      const path = dice.chance(LEASED_SHARE) ? '/payouts' : '/charges'
      await this.#untilAnswered(path, order)
      // A client that did not see the answer asks once more.
      if (dice.chance(AGAIN_SHARE)) await this.#untilAnswered(path, order)
      await pause(dice.below(THINK_MS))
    }
  }

  async #untilAnswered(path: string, order: Order): Promise<void> {
    const { seen } = this
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const port = this.ports[this.#next++ % Math.max(1, this.ports.length)]
      const attempt = randomUUID()
      const answer = port === undefined ? null : await this.#send(port, path, order, attempt)
      if (answer === null) {
        seen.refused++
        seen.unanswered.push(attempt)
        const at = this.ports.indexOf(port as number)
        if (at >= 0 && this.ports.length > 1) this.ports.splice(at, 1)
      } else {
        if (answer.status >= 500) this.#tell('5xx', port, answer)
        else if (answer.status === 201) return this.#answered(order.key, answer.body)
        else if (answer.status !== 409) this.#tell('wrong', port, answer)
      }
      await pause(RETRY_MS)
    }
    throw new Error(`${order.key} has no answer after ${TRIES_MAX} tries`)
  }

  #answered(key: string, body: string): void {
    const before = this.seen.answers.get(key)
    if (before !== undefined && before !== body) this.seen.wrong++
    this.seen.answers.set(key, body)
  }

  #tell(kind: '5xx' | 'wrong', port: number | undefined, answer: { status: number; body: string }): void {
    this.seen[kind]++
    console.error(`port ${port} answered ${answer.status}: ${answer.body}`)
  }

  /** Null: no answer. */
  #send(port: number, path: string, order: Order, attempt: string): Promise<{ status: number; body: string } | null> {
    this.seen.requests++
    const body = JSON.stringify(order)
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'idempotency-key': `"${order.key}"`,
      'x-attempt': attempt,
    }
    return new Promise((resolve) => {
      const sent = request(
        { host: '127.0.0.1', port, path, method: 'POST', headers, agent: this.#agent },
        (response) => {
          let text = ''
          response
            .setEncoding('utf8')
            .on('data', (part: string) => (text += part))
            .on('end', () => resolve({ status: response.statusCode ?? 0, body: text }))
            .on('error', () => resolve(null))
        },
      )
      sent.on('error', () => resolve(null)).end(body)
    })
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
