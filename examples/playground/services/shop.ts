/**
 * The shop, a separate process: charges over HTTP, events through the outbox. The vertices of a request are really
 * switched off: without a key the handler simply runs, and without the outbox the event is sent outside the
 * transaction.
 */
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { effectivelyOnce } from 'effectively-once'
import { idempotency } from 'effectively-once/node'
import { sqliteStore, type SqlTx } from 'effectively-once/sqlite'
import { events, type ChargeCreated, type Order } from '../catalogue.ts'
import { brokerSink, publishBeside } from './broker-client.ts'
import { pass, ready, takeOver } from './crash.ts'

const [, , file = '', brokerUrl = ''] = process.argv
const RELAY_LEASE = '1s' // a killed relay's events wait this long for the next one
const { boot, port } = await takeOver()

const store = sqliteStore({ file })
const once = effectivelyOnce({
  namespace: 'shop',
  store,
  events,
  replayFor: '1h',
  guard: 'off', // "no outbox" is exactly what the guard would warn of
  observe: ({ kind }) => {
    if (kind === 'completed') pass('after-commit') // its answer has not left yet
  },
})
// Customers may disconnect while they wait.
const idempotent = idempotency(once, { scope: 'global', onError: () => {} })

const chargeOnce = idempotent(async (req, res, { tx, publish, id }) => {
  const created = await insertCharge(tx, await orderOf(req), id)
  if (hasOutbox(req)) await publish('charge.created', created)
  else res.once('finish', () => sendBeside(created))
  pass('before-commit')
  answer(res, created) // leaves after the commit
})

async function chargeWithoutKey(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const order = await orderOf(req)
  const created = await store.transaction(async (tx) => {
    const created = await insertCharge(tx, order, null)
    if (hasOutbox(req)) await once.join(tx).publish('charge.created', created)
    pass('before-commit')
    return created
  })
  pass('after-commit')
  if (!hasOutbox(req)) res.once('finish', () => sendBeside(created))
  answer(res, created)
}

async function insertCharge(tx: SqlTx, order: Order, operation: string | null): Promise<ChargeCreated> {
  const insert =
    'insert into charges (causation, round, amount, operation, boot) values ($1, $2, $3, $4, $5) returning id'
  const { causation, round, amount } = order
  const { rows } = await tx.query<{ id: number }>(insert, [causation, round, amount, operation, boot])
  return { charge: Number(rows[0]?.id), causation, round, amount }
}

/** The dual write: if this process dies before the send, the charge has no event, and nothing reports it. */
function sendBeside(created: ChargeCreated): void {
  const message = { id: randomUUID(), source: 'shop', type: 'charge.created', subject: created.causation }
  publishBeside(brokerUrl, { ...message, time: new Date().toISOString(), data: created }).catch(() => {})
}

async function orderOf(req: IncomingMessage): Promise<Order> {
  return JSON.parse(await text(req)) as Order
}

function hasOutbox(req: IncomingMessage): boolean {
  return req.headers['x-outbox'] !== 'off'
}

function answer(res: ServerResponse, body: unknown): void {
  res.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

const server = createServer((req, res) => {
  if (req.headers['idempotency-key'] !== undefined) return chargeOnce(req, res)
  chargeWithoutKey(req, res).catch(() => res.writeHead(503).end())
})
await once.relay({ to: brokerSink(brokerUrl), lease: RELAY_LEASE }).start()
server.listen(port, '127.0.0.1', () => ready((server.address() as AddressInfo).port))
