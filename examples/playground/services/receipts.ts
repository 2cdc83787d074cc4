/**
 * The receipts service, a separate process: one receipt per charge. Two consumers do the same work. One has an inbox,
 * the other applies every delivery.
 */
import { effectivelyOnce, type EventsOf, type OpOf } from 'effectively-once'
import { sqliteStore } from 'effectively-once/sqlite'
import type { PlaygroundEvents } from '../catalogue.ts'
import { brokerSource } from './broker-client.ts'
import { ready, takeOver } from './crash.ts'

const [, , file = '', brokerUrl = ''] = process.argv
const ATTEMPTS = 100 // the process is killed for fun here: no event is to blame
await takeOver()

const once = effectivelyOnce({ namespace: 'receipts', store: sqliteStore({ file }), guard: 'off' })

type Created = EventsOf<PlaygroundEvents>['charge.created']

async function writeReceipt({ id, data }: Created, { tx }: OpOf<typeof once>): Promise<void> {
  const insert = 'insert into receipts (event, charge, causation, round) values ($1, $2, $3, $4)'
  await tx.query(insert, [id, data.charge, data.causation, data.round])
}

const on = { 'charge.created': writeReceipt }
const guarded = brokerSource(brokerUrl, 'guarded')
const unguarded = brokerSource(brokerUrl, 'unguarded')
await once.consumer('receipts', { from: guarded, attempts: ATTEMPTS }, on).start()
await once.consumer('receipts-no-inbox', { from: unguarded, attempts: ATTEMPTS, delivery: 'at-least-once' }, on).start()
ready()
