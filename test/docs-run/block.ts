/** Runs one block of a page in the world that the pages take for granted: `node block.js FILE`. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pathToFileURL } from 'node:url'
import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, serial } from 'drizzle-orm/pg-core'
import pg from 'pg'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { PrismaClient } from '../../examples/02-fastify-prisma/generated/client.ts'

/** The rest of a block's work, such as a consumer that has just started, may fail a moment later. */
const SETTLE_MS = 500
const TABLES = `
  create table charges (id serial primary key, customer text, amount int, payment text, invoice int);
  create table receipts (charge int);
  create table payments (id serial primary key, order_id int, charge text, invoice text, reference text, event text);
  create table wires (reference text, amount int);
  create table invoices (id text unique, tenant text, amount int, customer text, total int, state text default 'open')`

const [, , file = ''] = process.argv
const connectionString = process.env['DATABASE_URL'] ?? ''
const pool = new pg.Pool({ connectionString, max: 10 })
await pool.query(TABLES)
const once = effectivelyOnce({ namespace: 'docs', store: pgStore(pool), guard: 'off' })
await once.migrate()
const event = { id: 'evt_1', data: { id: 1 } }
const stripe = { charges: { create: async () => ({ id: '7' }) }, refunds: { create: async () => ({ id: '8' }) } }
const listed = [{ order: 'order-1', charge: '7' }]
const ledger = { read: () => listed }
const provider = { list: () => [...listed, { order: 'order-1', charge: '8' }], refund: async () => ({ id: '9' }) }
const wire = { reference: 'wire-1' }
const bank = { send: async () => wire, find: async () => wire, list: () => [], cancel: async () => ({ id: '10' }) }
Object.assign(globalThis, {
  once,
  pool,
  event,
  stripe,
  ledger,
  provider,
  bank,
  prisma: new PrismaClient({ adapter: new PrismaPg({ connectionString }) }),
  db: drizzle(pool),
  charges: pgTable('charges', { id: serial('id').primaryKey(), amount: integer('amount') }),
  user: { id: 'ann' },
  key: 'key-1',
  amount: 500,
  body: '{"amount":500}',
  invoice: { id: 1, tenant: 'acme', amount: 500 },
})
// A page in a browser fetches from its own server, and the shop of the pages is that server, too.
const server = createServer((_req, res) => res.writeHead(201).end()).listen(0, '127.0.0.1')
await new Promise((resolve) => server.once('listening', resolve))
const { port } = server.address() as AddressInfo
const { fetch } = globalThis
globalThis.fetch = (to, init) => {
  const { pathname } = new URL(to instanceof Request ? to.url : String(to), 'https://shop.example')
  return fetch(new URL(pathname, `http://127.0.0.1:${port}`), to instanceof Request ? { method: to.method } : init)
}
await import(pathToFileURL(file).href)
await new Promise((resolve) => setTimeout(resolve, SETTLE_MS))
process.exit(0)
