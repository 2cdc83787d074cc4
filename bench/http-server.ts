import Fastify from 'fastify'
import { idempotency } from '../src/entry/fastify.ts'
import { parseKeyHeader } from '../src/key/header.ts'
import { INSERT_CHARGE, INSERT_EVENT, SCOPE } from './support/charge.ts'
import type { Charge } from './support/charge.ts'
import { openOnce, openPool } from './support/database.ts'

/** The server under load, in a process of its own: the same Fastify, bare and protected. Prints its port. */
const url = process.argv[2] ?? ''
const once = await openOnce(openPool(url))
const bare = openPool(url)
const idempotent = idempotency(once, { scope: () => SCOPE })
const app = Fastify()

app.post<{ Body: Charge }>('/bare', async (request, reply) => {
  const { account, amount } = request.body
  const client = await bare.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query(INSERT_CHARGE, [account, amount])
    const charge = { id: rows[0].id as string, account, amount }
    await client.query(INSERT_EVENT, ['charge', account, 'charge.created', JSON.stringify(charge)])
    await client.query('commit')
    return await reply.code(201).send(charge)
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
})

const charges = idempotent<{ Body: Charge }>(async (request, reply, { tx, publish }) => {
  const { account, amount } = request.body
  const { rows } = await tx.query<{ id: string }>(INSERT_CHARGE, [account, amount])
  const charge = { id: rows[0]?.id ?? '', account, amount }
  await publish('charge.created', charge)
  return reply.code(201).send(charge)
})
app.post('/charges', charges)
/** The cache of this process is emptied, as if the first request had met another one. */
app.post('/forgetful', { preHandler: async () => once.core.cache.clear() }, charges)

const batched = once.batched({
  statement: ({ account, amount }: Charge) => ({ sql: INSERT_CHARGE, values: [account, amount] }),
  respond: (rows, { account, amount }, { publish }) => {
    const charge = { id: String(rows[0]?.['id']), account, amount }
    void publish('charge.created', charge)
    return charge
  },
})
app.post<{ Body: Charge }>('/batched', async (request, reply) => {
  const key = parseKeyHeader(String(request.headers['idempotency-key']))
  return reply.code(201).send(await batched({ scope: SCOPE, key, input: request.body }))
})

const address = await app.listen({ port: 0, host: '127.0.0.1' })
process.stdout.write(`${new URL(address).port}\n`)
process.on('SIGTERM', () => process.exit(0))
