/**
 * Credits the referrer of a customer. A credit to a closed account always fails, so it is parked as a dead letter until
 * a redrive.
 */
import { effectivelyOnce } from 'effectively-once'
import { webhook } from 'effectively-once/node'
import { sqliteStore } from 'effectively-once/sqlite'
import { standardWebhooksSource } from 'effectively-once/webhook'
import { events, REWARD, SECRET } from '../catalogue.ts'
import { file, serve, tellDeliveries } from './serve.ts'

const ATTEMPTS = 3
const once = effectivelyOnce({ namespace: 'referrals', store: sqliteStore({ file }), observe: tellDeliveries })
await once.migrate()

const referrals = once.consumer(
  'referrals',
  {
    from: standardWebhooksSource({ secret: SECRET, events }),
    attempts: ATTEMPTS,
    unknown: { ignore: ['confirmation.due'] },
  },
  {
    'order.placed': async ({ data: { order, referrer } }, { tx }) => {
      await tx.query('insert into credits (order_id, account) values ($1, $2)', [order, referrer])
      const credit = 'update accounts set balance = balance + $1 where name = $2 and is_open = 1 returning name'
      const { rows } = await tx.query(credit, [REWARD, referrer])
      if (rows.length === 0) throw new Error(`the account of ${referrer} is closed`)
    },
  },
)
await referrals.start()
serve(webhook(referrals))
