import { DEADLINE_MS_DEFAULT, DEADLINE_MS_MAX, SERVER_DEADLINE_SLACK_MS } from '../../limits.ts'
import type { Row, SqlStore } from '../store.ts'
import { callbackDriver } from './callback-transaction.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { hasMethods, requireThat } from './revocable-handle.ts'
import { revocablePrisma } from './prisma-handle.ts'
import { isConnectionLost } from './driver/sqlstate.ts'
import { postgresStore, type PostgresStoreOptions } from './store.ts'

/**
 * The part of Prisma that we use, as a structural type. `Tx` is `Prisma.TransactionClient`, also for an extended
 * client.
 */
export interface PrismaDatabase<Tx> {
  $transaction<T>(
    run: (tx: Tx) => Promise<T>,
    options?: { isolationLevel?: 'ReadCommitted'; timeout?: number; maxWait?: number },
  ): Promise<T>
  $queryRawUnsafe: unknown
}

export interface PrismaOptions {
  /** The database behind Prisma. Prisma does not reveal it. */
  dialect: 'postgres'
}

/**
 * @example
 * const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) })
 * const once = effectivelyOnce({ namespace: 'payments', store: prismaStore(prisma, { dialect: 'postgres' }) })
 */
export function prismaStore<Tx>(
  prisma: PrismaDatabase<Tx>,
  options: PrismaOptions & PostgresStoreOptions,
): SqlStore<Tx> {
  return postgresStore(prismaDriver(prisma, options), options)
}

export function prismaDriver<Tx>(prisma: PrismaDatabase<Tx>, options: PrismaOptions): PgDriver<Tx> {
  requireThat(options?.dialect === 'postgres', `prismaStore(prisma, { dialect }) knows the dialect 'postgres' only`)
  requireThat(
    hasMethods(prisma, ['$transaction', '$queryRawUnsafe', '$connect']),
    'prismaStore(prisma, ...) needs a PrismaClient, not a transaction of it',
  )
  return callbackDriver<Tx>({
    name: 'prisma',
    transaction: (callback) => prisma.$transaction(callback, TRANSACTION),
    query: (statement) => send(prisma as unknown as Raw, statement),
    queryIn: (tx, statement) => send(tx as Raw, statement),
    revocable: (tx, _, takeTurn) =>
      revocablePrisma(tx as object, takeTurn) as { tx: Tx; revoke(): void; quiet(): Promise<unknown> },
    isTransaction: (tx) => hasMethods(tx, ['$queryRawUnsafe']) && !hasMethods(tx, ['$connect']),
    commitLost: (error) => isConnectionLost(error) && !isOver(error),
  })
}

/**
 * Prisma's own limits are short, so the store raises them. The server's deadline, which the claim sets, still applies.
 */
const TRANSACTION = {
  isolationLevel: 'ReadCommitted',
  timeout: DEADLINE_MS_MAX + 2 * SERVER_DEADLINE_SLACK_MS,
  maxWait: DEADLINE_MS_DEFAULT,
} as const

interface Raw {
  $queryRawUnsafe(text: string, ...values: unknown[]): Promise<Row[]>
}

function send(prisma: Raw, { text, values }: PgStatement): Promise<readonly Row[]> {
  return prisma.$queryRawUnsafe(text, ...values)
}

/**
 * Prisma gave up before it sent COMMIT: the transaction had timed out (P2028), or a nested transaction was left open.
 */
function isOver(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  return code === 'P2028' || /^(?:Cannot close transaction|Nested transactions must)/.test(String(message))
}
