/** Takes orders over HTTP, books a courier, charges the card, and publishes events through its outbox. */
import { text } from 'node:stream/consumers'
import { effectivelyOnce } from 'effectively-once'
import { idempotency } from 'effectively-once/node'
import { sqliteStore } from 'effectively-once/sqlite'
import { webhookSink } from 'effectively-once/webhook'
import { events, MAIL_DELAY_MS, SECRET, type Order } from '../catalogue.ts'
import { callProvider } from './call-provider.ts'
import { addresses, file, serve } from './serve.ts'

const [provider = '', ...receivers] = addresses
// After a kill, the next process waits this long before it takes over.
const LEASE = '1s'
const RELAY_LEASE = '2s'
// Processes are killed on purpose here, so no event is at fault.
const ATTEMPTS = 1_000

const once = effectivelyOnce({ namespace: 'orders', store: sqliteStore({ file }), events })
await once.migrate()
// A handler throws only when the provider's answer is lost. The customer gets a 500 and retries.
const idempotent = idempotency(once, { scope: (req) => String(req.headers['x-customer'] ?? ''), onError: () => {} })

const placeOrder = idempotent({ lease: LEASE }, async (req, res, { step, commit }) => {
  const order = JSON.parse(await text(req)) as Order
  // A refused order keeps no courier: the booking is undone before the customer gets the refusal.
  await step('courier', ({ key, signal }) => callProvider(`${provider}/couriers`, { order: order.id }, key, signal), {
    undo: ({ result, key, signal }) =>
      callProvider(`${provider}/cancellations`, { order: order.id, courier: result.id }, key, signal),
  })
  const payment = await step('charge', ({ key, signal }) =>
    callProvider(`${provider}/payments`, { order: order.id, amount: order.amount, card: order.card }, key, signal),
  )
  return commit(async ({ tx, publish }) => {
    res.setHeader('content-type', 'application/json')
    if (payment.declined) return res.writeHead(402).end(JSON.stringify({ order: order.id, error: 'card declined' }))
    const { id, customer, sku, amount, referrer } = order
    await tx.query('insert into orders (order_id, customer, payment) values ($1, $2, $3)', [id, customer, payment.id])
    const notBefore = new Date(Date.now() + MAIL_DELAY_MS)
    await publish('order.placed', { order: id, sku, amount, referrer })
    await publish('confirmation.due', { order: id, customer, notBefore: notBefore.toISOString() }, { notBefore })
    return res.writeHead(201).end(JSON.stringify({ order: id, payment: payment.id }))
  })
})

for (const url of receivers) {
  await once
    .relay({ to: webhookSink({ url, secret: SECRET, timeout: '5s' }), lease: RELAY_LEASE, attempts: ATTEMPTS })
    .start()
}
serve(placeOrder)
