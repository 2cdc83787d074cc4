/** The store's part of the wiring, for one database client. */
export interface ClientWiring {
  /** The packages that the wiring imports. */
  readonly packages: readonly string[]
  /** Imports, the client and `const store`. */
  readonly setup: string
  /** An expression that creates the table. */
  readonly create: string
  /** An expression that inserts `id` and `amount` through `tx`. */
  readonly insert: string
  /** An expression that closes the client. Absent: closing the instance closes the store's file. */
  readonly end?: string
}

const URL = `process.env['DATABASE_URL']`
const CREATE = 'create table if not exists charges (id text primary key, amount int not null)'
const INSERT = 'insert into charges (id, amount) values'
const TAGGED = `sql\`${INSERT} (\${id}, \${amount})\``
const QUERY = `tx.query('${INSERT} ($1, $2)', [id, amount])`

const POOL = `const pool = new pg.Pool({ connectionString: ${URL} })
pool.on('error', (error) => console.error(error))`

/** Where the generated Prisma client is, and whether it needs a driver adapter. */
export interface PrismaProject {
  readonly client: string
  readonly adapter: boolean
}

export type ClientName = 'pg' | 'postgres' | 'drizzle' | 'kysely' | 'prisma' | 'pglite' | 'sqlite'

export const CLIENTS: Readonly<Record<ClientName, (project: PrismaProject) => ClientWiring>> = {
  pg: () => ({
    packages: ['pg', '@types/pg'],
    setup: `import pg from 'pg'
import { pgStore } from 'effectively-once/pg'

${POOL}
const store = pgStore(pool)`,
    create: `pool.query('${CREATE}')`,
    insert: QUERY,
    end: 'pool.end()',
  }),
  postgres: () => ({
    packages: ['postgres'],
    setup: `import postgres from 'postgres'
import { postgresJsStore } from 'effectively-once/postgres'

const sql = postgres(${URL} ?? '', { onnotice: () => {} })
const store = postgresJsStore(sql)`,
    create: `sql\`${CREATE}\``,
    insert: TAGGED.replace('sql', 'tx'),
    end: 'sql.end({ timeout: 5 })',
  }),
  drizzle: () => ({
    packages: ['drizzle-orm', 'pg', '@types/pg'],
    setup: `import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { drizzleStore } from 'effectively-once/drizzle'

${POOL}
const db = drizzle(pool)
const store = drizzleStore(db)`,
    create: `db.execute(sql\`${CREATE}\`)`,
    insert: `tx.execute(${TAGGED})`,
    end: 'pool.end()',
  }),
  kysely: () => ({
    packages: ['kysely', 'pg', '@types/pg'],
    setup: `import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { kyselyStore } from 'effectively-once/kysely'

${POOL}
// Without this listener a connection that breaks during a transaction ends the process.
pool.on('connect', (client) => client.on('error', (error) => console.error(error)))
const db = new Kysely<{ charges: Charge }>({ dialect: new PostgresDialect({ pool }) })
const store = kyselyStore(db, { dialect: 'postgres' })`,
    create: `sql\`${CREATE}\`.execute(db)`,
    insert: `tx.insertInto('charges').values({ id, amount }).execute()`,
    end: 'db.destroy()',
  }),
  prisma: ({ client, adapter }: PrismaProject) => ({
    packages: ['@prisma/client', ...(adapter ? ['@prisma/adapter-pg'] : [])],
    setup: `${adapter ? `import { PrismaPg } from '@prisma/adapter-pg'\n` : ''}import { prismaStore } from 'effectively-once/prisma'
import { PrismaClient } from '${client}'

const prisma = new PrismaClient(${adapter ? `{ adapter: new PrismaPg({ connectionString: ${URL} ?? '' }) }` : ''})
const store = prismaStore(prisma, { dialect: 'postgres' })`,
    create: `prisma.$executeRaw\`${CREATE}\``,
    insert: TAGGED.replace('sql', 'tx.$executeRaw'),
    end: 'prisma.$disconnect()',
  }),
  pglite: () => ({
    packages: ['@electric-sql/pglite'],
    setup: `import { PGlite } from '@electric-sql/pglite'
import { pgliteStore } from 'effectively-once/pglite'

const db = new PGlite(process.env['PGLITE_FOLDER'] ?? './pgdata')
const store = pgliteStore(db)`,
    create: `db.exec('${CREATE}')`,
    insert: QUERY,
    end: 'db.close()',
  }),
  sqlite: () => ({
    packages: [],
    setup: `import { sqliteStore } from 'effectively-once/sqlite'

const store = sqliteStore({ file: (${URL} ?? 'app.db').replace(/^(?:file|sqlite):(?:\\/\\/)?/, '') })`,
    create: `store.transaction((tx) => tx.query('${CREATE}'))`,
    insert: QUERY,
  }),
}
