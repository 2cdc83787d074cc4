export { prismaStore } from '../store/postgres/prisma.ts'
export type { PrismaDatabase, PrismaOptions } from '../store/postgres/prisma.ts'
export type { PostgresStoreOptions } from '../store/postgres/store.ts'
