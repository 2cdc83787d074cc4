/**
 * A shop that charges, as users write it: `shop.ts <file> <port>`. It is killed and started again on the same port.
 *
 * The table has no unique constraint, so a second charge of an order would be visible.
 */
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import Libsql from 'libsql'
import { effectivelyOnce } from '../../../src/index.ts'
import { idempotency } from '../../../src/entry/node.ts'
import { sqliteStore } from '../../../src/entry/sqlite.ts'

const [, , file = '', port = '0'] = process.argv
/** Every so many orders the card is declined. */
const DECLINED_EVERY = 50

const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file }), sweep: false })
await once.migrate()
const database = new Libsql(file)
database.exec('create table if not exists charges (id integer primary key, order_number integer, amount integer)')
database.close()

const idempotent = idempotency(once, { scope: 'global', onError: () => {} })
const charge = idempotent(async (req, res, { tx }) => {
  const { order } = JSON.parse(await text(req)) as { order: number }
  if (order % DECLINED_EVERY === DECLINED_EVERY - 1) return res.writeHead(402).end('{"error":"declined"}')
  const { rows } = await tx.query('insert into charges (order_number, amount) values (?, 5) returning id', [order])
  return res.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify({ id: rows[0]?.['id'] }))
})

const server = createServer((req, res) =>
  req.url === idempotent.policyPath ? idempotent.policyHandler(req, res) : charge(req, res),
)
server.listen(Number(port), '127.0.0.1', () => {
  const address = server.address()
  console.log(`listening ${typeof address === 'object' ? address?.port : ''}`)
})
