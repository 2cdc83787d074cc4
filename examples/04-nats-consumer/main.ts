/**
 * A consumer on NATS JetStream: one receipt per charge, however often the broker delivers the event. The inbox row
 * commits with the receipt. Only then does the consumer acknowledge the event.
 *
 * NATS_URL=nats://localhost:4222 FILE=receipts.db npx tsx examples/04-nats-consumer/main.ts
 */
import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { effectivelyOnce } from 'effectively-once'
import { natsSource } from 'effectively-once/nats'
import { sqliteStore } from 'effectively-once/sqlite'
import { crashPoint, observe } from '../crash.ts'
import { events } from './catalogue.ts'

const store = sqliteStore({ file: process.env['FILE'] ?? 'receipts.db' })
await store.transaction((tx) =>
  tx.query('create table if not exists receipts (id integer primary key, charge integer not null)'),
)
const once = effectivelyOnce({ namespace: 'receipts', store, observe })
await once.migrate()

const connection = await connect({
  servers: process.env['NATS_URL'] ?? 'nats://localhost:4222',
  maxReconnectAttempts: -1,
})
// The publisher creates the stream. After `ackWait`, NATS delivers the events of a dead process again.
const from = natsSource(jetstream(connection), { stream: process.env['STREAM'] ?? 'payments', events, ackWait: '1s' })

await once
  .consumer(
    'receipts',
    { from },
    {
      'charge.created': async ({ data }, { tx }) => {
        await tx.query('insert into receipts (charge) values ($1)', [data.id])
        crashPoint('before-commit')
      },
    },
  )
  .start()
