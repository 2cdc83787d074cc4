/**
 * A payment on Fastify and Prisma: `tx` is your own `Prisma.TransactionClient`.
 *
 * npx prisma generate --schema examples/02-fastify-prisma/schema.prisma
 * DATABASE_URL=postgres://localhost/shop PORT=3000 npx tsx examples/02-fastify-prisma/main.ts
 */
import { PrismaPg } from '@prisma/adapter-pg'
import Fastify from 'fastify'
import { effectivelyOnce } from 'effectively-once'
import { idempotency } from 'effectively-once/fastify'
import { prismaStore } from 'effectively-once/prisma'
import { customerOf } from '../authentication.ts'
import { crashPoint, observe } from '../crash.ts'
import { PrismaClient } from './generated/client.ts'

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env['DATABASE_URL'] ?? '' }) })
// Your table comes from Prisma Migrate. The library's tables are in another schema, so Prisma reports no drift.
await prisma.$executeRawUnsafe(
  'create table if not exists charges (id serial primary key, customer text not null, amount int not null)',
)

const once = effectivelyOnce({ namespace: 'payments', store: prismaStore(prisma, { dialect: 'postgres' }), observe })
await once.migrate()
const idempotent = idempotency(once, { scope: (request) => customerOf(request.headers.authorization) })

const app = Fastify()
app.post<{ Body: { amount: number } }>(
  '/charges',
  idempotent(async (request, reply, { tx, scope }) => {
    const { amount } = request.body
    const charge = await tx.charge.create({ data: { customer: scope, amount } })
    crashPoint('before-commit')
    return reply.code(201).send(charge) // leaves after the commit
  }),
)
await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' })
