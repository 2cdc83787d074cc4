/**
 * A receiver of Stripe's webhooks. The provider's event id is the key, so retries and manual resends are the same
 * event. An event that fails too often is parked as a dead letter, so it is not lost when the provider stops retrying.
 *
 * STRIPE_SECRET=whsec_… FILE=billing.db PORT=3000 npx tsx examples/05-webhook-receiver/main.ts
 */
import express from 'express'
import { effectivelyOnce } from 'effectively-once'
import { webhook } from 'effectively-once/express'
import { sqliteStore } from 'effectively-once/sqlite'
import { stripeSource } from 'effectively-once/stripe'
import { crashPoint, observe } from '../crash.ts'

/** With Stripe's own types, write `stripeSource<Stripe.Event>`. */
type InvoicePaid = { id: string; type: 'invoice.paid'; data: { object: { id: string; amount_paid: number } } }

const store = sqliteStore({ file: process.env['FILE'] ?? 'billing.db' })
await store.transaction((tx) =>
  tx.query('create table if not exists payments (id integer primary key, invoice text not null, amount int not null)'),
)
const once = effectivelyOnce({ namespace: 'billing', store, observe })
await once.migrate()

const billing = once.consumer(
  'billing',
  { from: stripeSource<InvoicePaid>({ secret: process.env['STRIPE_SECRET'] ?? '' }) },
  {
    'invoice.paid': async ({ data: { object: invoice } }, { tx }) => {
      const insert = 'insert into payments (invoice, amount) values ($1, $2)'
      await tx.query(insert, [invoice.id, invoice.amount_paid])
      crashPoint('before-commit')
    },
  },
)
await billing.start()

const app = express()
// Mount it before any body parser, because the signature covers the raw bytes.
app.post('/webhooks/stripe', webhook(billing))
app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1')
