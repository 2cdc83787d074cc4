/** Decrements the stock, once per order. */
import { effectivelyOnce } from 'effectively-once'
import { webhook } from 'effectively-once/node'
import { sqliteStore } from 'effectively-once/sqlite'
import { standardWebhooksSource } from 'effectively-once/webhook'
import { events, SECRET } from '../catalogue.ts'
import { file, serve, tellDeliveries } from './serve.ts'

// A test plants this flaw, to check that the table shows it: duplicates are applied too.
const delivery = process.env['ORDER_PLANT'] === 'no-inbox' ? 'at-least-once' : 'once'
const once = effectivelyOnce({ namespace: 'inventory', store: sqliteStore({ file }), observe: tellDeliveries })
await once.migrate()

const inventory = once.consumer(
  'inventory',
  { from: standardWebhooksSource({ secret: SECRET, events }), delivery, unknown: { ignore: ['confirmation.due'] } },
  {
    'order.placed': async ({ data: { order, sku } }, { tx }) => {
      await tx.query('update stock set units = units - 1 where sku = $1', [sku])
      await tx.query('insert into movements (order_id, sku) values ($1, $2)', [order, sku])
    },
  },
)
await inventory.start()
serve(webhook(inventory))
