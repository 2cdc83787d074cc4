import { randomUUID } from 'node:crypto'
import type { Order } from './catalogue.ts'

/** The customer's final answer, and how many requests it took. */
export interface Seen {
  readonly order: Order
  readonly key: string
  /** 201 or 402. 0 means no answer at all. */
  readonly status: number
  readonly answer: string
  readonly requests: number
  /** The answer is a replay: an earlier request had done the work. */
  readonly replayed: boolean
}

const REQUEST_MS_MAX = 5_000
const PAUSE_MS = 100

/** Makes one key per intention, before the first request. Repeats the same request until there is an answer. */
export async function placeOrder(
  url: string,
  order: Order,
  deadline: number,
  key: string = randomUUID(),
): Promise<Seen> {
  let requests = 0
  while (Date.now() < deadline) {
    requests++
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key, 'x-customer': order.customer },
      body: JSON.stringify(order),
      signal: AbortSignal.timeout(REQUEST_MS_MAX),
    }).catch(() => undefined) // killed, or still starting
    const answer = await response?.text().catch(() => undefined)
    if (response && answer !== undefined && (response.status === 201 || response.status === 402)) {
      const replayed = response.headers.get('idempotent-replayed') === 'true'
      return { order, key, status: response.status, answer, requests, replayed }
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
  return { order, key, status: 0, answer: '', requests, replayed: false }
}
