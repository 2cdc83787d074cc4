import { effectivelyOnce, type OpOf } from 'effectively-once'
import { prismaStore } from 'effectively-once/prisma'
import { observe } from '../crash.ts'
import type { Prisma } from './prisma.ts'

export async function openOnce(prisma: Prisma) {
  // Your table comes from Prisma Migrate. The library's tables are in another schema, so Prisma reports no drift.
  await prisma.$executeRawUnsafe(
    'create table if not exists charges (id serial primary key, customer text not null, amount int not null)',
  )
  const once = effectivelyOnce({ namespace: 'payments', store: prismaStore(prisma, { dialect: 'postgres' }), observe })
  await once.migrate()
  return once
}

/** The operation that a handler gets: `tx` is a `Prisma.TransactionClient`. */
export type PaymentOp = OpOf<Awaited<ReturnType<typeof openOnce>>>
