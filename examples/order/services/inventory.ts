/** Decrements the stock, once per order. */
import { effectivelyOnce } from '../../../src/index.ts'
import { webhook } from '../../../src/entry/node.ts'
import { sqliteStore } from '../../../src/entry/sqlite.ts'
import { standardWebhooksSource } from '../../../src/entry/webhook.ts'
import { events, SECRET } from '../catalogue.ts'
import { file, serve, tellDeliveries } from './serve.ts'

// A flaw that a test plants, to check that the table shows it: every delivery is applied, duplicates too.
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
