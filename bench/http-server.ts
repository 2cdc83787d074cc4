import Fastify from 'fastify'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { idempotency } from '../src/entry/fastify.ts'
import type { OpOf } from '../src/index.ts'
import { INSERT_CHARGE, INSERT_EVENT, SCOPE } from './support/charge.ts'
import type { Charge } from './support/charge.ts'
import { openOnce, openPool } from './support/database.ts'

/** The server under load, in a process of its own: the same Fastify, bare and protected. Tells its parent its port. */
const url = process.argv[2] ?? ''
const once = await openOnce(openPool(url))
/** The memory of this one is emptied before every request, as if the first one had met another process. */
const forgetting = await openOnce(openPool(url))
const bare = openPool(url)
const idempotent = idempotency(once, { scope: () => SCOPE })
const forgetful = idempotency(forgetting, { scope: () => SCOPE })
const app = Fastify()

/** What the framework alone does: the ceiling of every replay on this machine. */
app.post<{ Body: Charge }>('/static', async (request, reply) => reply.code(201).send({ id: '1', ...request.body }))

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

const charge = async (
  request: FastifyRequest<{ Body: Charge }>,
  reply: FastifyReply,
  { tx, publish }: OpOf<typeof once>,
): Promise<FastifyReply> => {
  const { account, amount } = request.body
  const { rows } = await tx.query<{ id: string }>(INSERT_CHARGE, [account, amount])
  const made = { id: rows[0]?.id ?? '', account, amount }
  await publish('charge.created', made)
  return reply.code(201).send(made)
}
app.post('/charges', idempotent<{ Body: Charge }>(charge))
const forget = async (): Promise<void> => forgetting.core.cache.clear()
app.post('/forgetful', { preHandler: forget }, forgetful<{ Body: Charge }>(charge))

const batched = idempotent.batched({
  parse: (body) => body as Charge,
  statement: ({ account, amount }) => ({ sql: INSERT_CHARGE, values: [account, amount] }),
  respond: (rows, { account, amount }, { publish }) => {
    const charge = { id: String(rows[0]?.['id']), account, amount }
    void publish('charge.created', charge)
    return { status: 201, body: charge }
  },
})
app.post('/batched', batched)

const address = await app.listen({ port: 0, host: '127.0.0.1' })
process.send?.(Number(new URL(address).port))
process.on('disconnect', () => process.exit(0))
