import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { idempotency } from '../src/entry/express.ts'
import { parseKeyHeader } from '../src/key/header.ts'
import { INSERT_CHARGE, INSERT_EVENT, SCOPE } from './support/charge.ts'
import type { Charge } from './support/charge.ts'
import { openOnce, openPool } from './support/database.ts'

/** The server under load, in a process of its own: the same Express, bare and protected. Prints its port. */
const pool = openPool(process.argv[2] ?? '')
const once = await openOnce(pool)
const bare = openPool(process.argv[2] ?? '')
const idempotent = idempotency(once, { scope: () => SCOPE })
const app = express().disable('x-powered-by')
app.use(express.json())

// Express 5 takes care of what it rejects with.
// oxlint-disable-next-line no-async-endpoint-handlers
app.post('/bare', async (req, res) => {
  const { account, amount } = req.body as Charge
  const client = await bare.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query(INSERT_CHARGE, [account, amount])
    const charge = { id: rows[0].id as string, account, amount }
    await client.query(INSERT_EVENT, ['charge', account, 'charge.created', JSON.stringify(charge)])
    await client.query('commit')
    res.status(201).json(charge)
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
})

const charges = idempotent(async (req, res, { tx, publish }) => {
  const { account, amount } = req.body as Charge
  const { rows } = await tx.query<{ id: string }>(INSERT_CHARGE, [account, amount])
  const charge = { id: rows[0]?.id ?? '', account, amount }
  await publish('charge.created', charge)
  res.status(201).json(charge)
})
/** The cache of this process is emptied, as if the first request had met another one. */
const forget: express.RequestHandler = (_req, _res, next) => {
  once.core.cache.clear()
  next()
}
app.post('/charges', charges)
app.post('/forgetful', forget, charges)

const batched = once.batched({
  statement: ({ account, amount }: Charge) => ({ sql: INSERT_CHARGE, values: [account, amount] }),
  respond: (rows, { account, amount }, { publish }) => {
    const charge = { id: String(rows[0]?.['id']), account, amount }
    void publish('charge.created', charge)
    return charge
  },
})
// oxlint-disable-next-line no-async-endpoint-handlers -- as above
app.post('/batched', async (req, res) => {
  const key = parseKeyHeader(req.get('idempotency-key') ?? '')
  res.status(201).json(await batched({ scope: SCOPE, key, input: req.body as Charge }))
})

const server = createServer(app).listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`)
})
process.on('SIGTERM', () => process.exit(0))
