import autocannon from 'autocannon'
import { newCharge, newKey } from './support/charge.ts'

/** What the parent asks for: one path under load, for so long or so often. */
export interface LoadOrder {
  readonly path: string
  readonly clients: number
  /** A new key per request, or these over and over, each with a body of its own. */
  readonly keys: 'new' | { readonly prefix: string; readonly count: number }
  readonly seconds?: number
  readonly amount?: number
}

export interface LoadResult {
  readonly operations: number
  readonly seconds: number
  /** Answers that were not 2xx, and requests without one. */
  readonly failed: number
}

/** The clients where there is no wrk, in a process of their own: what they cost is not the server's. */
const base = process.argv[2] ?? ''

async function load({ path, clients, keys, seconds, amount }: LoadOrder): Promise<LoadResult> {
  let sent = 0
  const setupRequest = (request: autocannon.Request): autocannon.Request => {
    const at = sent++
    const known = keys === 'new' ? null : at % keys.count
    request.headers = {
      'content-type': 'application/json',
      'idempotency-key': keys === 'new' || known === null ? newKey() : `${keys.prefix}-${known}`,
    }
    const charge = known === null ? newCharge() : { account: `account-${known % 1000}`, amount: 100 + (known % 900) }
    request.body = JSON.stringify(charge)
    return request
  }
  const startedAt = performance.now()
  const result = await autocannon({
    url: base,
    connections: clients,
    sampleInt: 50,
    ...(amount === undefined ? { duration: seconds } : { amount }),
    requests: [{ method: 'POST', path, setupRequest }],
  })
  return {
    operations: result['2xx'],
    seconds: (performance.now() - startedAt) / 1000,
    failed: result.non2xx + result.errors + result.timeouts,
  }
}

process.on('message', (order: LoadOrder) => {
  load(order).then(
    (result) => process.send?.(result),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})
process.on('disconnect', () => process.exit(0))
