/** Sends the confirmation through an external mail service. The consumer is leased, because that is an outside call. */
import { effectivelyOnce } from 'effectively-once'
import { webhook } from 'effectively-once/node'
import { sqliteStore } from 'effectively-once/sqlite'
import { standardWebhooksSource } from 'effectively-once/webhook'
import { events, SECRET } from '../catalogue.ts'
import { callProvider } from './call-provider.ts'
import { addresses, file, serve, tellDeliveries } from './serve.ts'

const [provider = ''] = addresses
const ATTEMPTS = 1_000 // the provider loses answers: no event is to blame
const once = effectivelyOnce({ namespace: 'email', store: sqliteStore({ file }), observe: tellDeliveries })
await once.migrate()

const email = once.consumer(
  'email',
  {
    from: standardWebhooksSource({ secret: SECRET, events }),
    lease: '1s',
    attempts: ATTEMPTS,
    unknown: { ignore: ['order.placed'] },
  },
  {
    'confirmation.due': async ({ data: { order, customer } }, { step, commit }) => {
      const mail = await step('send', ({ key, signal }) =>
        callProvider(`${provider}/mails`, { order, to: customer }, key, signal),
      )
      return commit(async ({ tx }) => {
        await tx.query('insert into mails (order_id, mail) values ($1, $2)', [order, mail.id])
      })
    },
  },
)
await email.start()
serve(webhook(email))
