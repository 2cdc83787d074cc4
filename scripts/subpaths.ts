/** What a subpath of the package is. */
export type SubpathKind = 'store' | 'framework' | 'broker' | 'webhook' | 'testing'

export interface Subpath {
  readonly kind: SubpathKind
  /** Optional peers whose client is passed in, with the versions that are tested. */
  readonly peers?: Readonly<Record<string, string>>
  /** What it may add to the core, minified and gzipped. A ceiling, not an aim. Absent: not shipped to anybody's server. */
  readonly kB?: number
  /** Where it is documented. */
  readonly page: string
  /** Its row in the table of its kind (scripts/manifest.ts), beside the name of the subpath. */
  readonly row?: readonly string[]
}

/** What everything in the core may weigh: relay, consumers, dead letters and redrives included. */
export const CORE_KB = 87

/**
 * Everything the package exports beside its core, in the order of the docs. `npm run manifest` writes exports, peers and
 * tables from this list, and tests check them. A new store, framework or broker is a folder, a file in src/entry, one
 * entry here and one row of its contract test.
 */
export const SUBPATHS: Readonly<Record<string, Subpath>> = {
  pg: {
    kind: 'store',
    peers: { pg: '>=8.11' },
    kB: 52,
    page: 'docs/stores.md',
    row: ['node-postgres', '`pgStore(pool)`', "the pool's client"],
  },
  postgres: {
    kind: 'store',
    peers: { postgres: '>=3.4' },
    kB: 48,
    page: 'docs/stores.md',
    row: ['postgres.js', '`postgresJsStore(sql)`', '`TransactionSql`'],
  },
  pglite: {
    kind: 'store',
    peers: { '@electric-sql/pglite': '>=0.3' },
    kB: 47,
    page: 'docs/stores.md',
    row: ['PGlite', '`pgliteStore(db)`', "PGlite's `Transaction`"],
  },
  drizzle: {
    kind: 'store',
    peers: { 'drizzle-orm': '>=0.40' },
    kB: 48,
    page: 'docs/stores.md',
    row: ['Drizzle (PostgreSQL)', '`drizzleStore(db)`', 'your Drizzle transaction'],
  },
  kysely: {
    kind: 'store',
    peers: { kysely: '>=0.27' },
    kB: 47,
    page: 'docs/stores.md',
    row: ['Kysely (PostgreSQL)', "`kyselyStore(db, { dialect: 'postgres' })`", '`Transaction<DB>`'],
  },
  prisma: {
    kind: 'store',
    peers: { '@prisma/client': '>=6' },
    kB: 47,
    page: 'docs/stores.md',
    row: ['Prisma (PostgreSQL)', "`prismaStore(db, { dialect: 'postgres' })`", '`Prisma.TransactionClient`'],
  },
  sqlite: {
    kind: 'store',
    peers: { libsql: '>=0.5' },
    kB: 28,
    page: 'docs/stores.md',
    row: ['nothing, or a file', '`sqliteStore({ file })`', '`query(sql, values)`'],
  },

  node: {
    kind: 'framework',
    kB: 24,
    page: 'docs/http.md',
    row: ['wrapped handler', '`IncomingMessage`'],
  },
  express: {
    kind: 'framework',
    peers: { express: '>=4.18' },
    kB: 24,
    page: 'docs/http.md',
    row: ['wrapped handler', 'Express 4 or 5 request'],
  },
  fastify: {
    kind: 'framework',
    peers: { fastify: '>=5' },
    kB: 25,
    page: 'docs/http.md',
    row: ['wrapped handler', 'Fastify 5 request'],
  },
  fetch: {
    kind: 'framework',
    kB: 18,
    page: 'docs/http.md',
    row: ['wrapped handler', '`Request`'],
  },
  hono: {
    kind: 'framework',
    peers: { hono: '>=4' },
    kB: 18,
    page: 'docs/http.md',
    row: ['middleware', 'Hono context'],
  },
  koa: {
    kind: 'framework',
    peers: { koa: '>=2.15' },
    kB: 25,
    page: 'docs/http.md',
    row: ['middleware', 'Koa context'],
  },
  nest: {
    kind: 'framework',
    peers: { '@nestjs/common': '>=10', rxjs: '>=7' },
    kB: 26,
    page: 'docs/http.md',
    row: ['module, decorator, context', 'request of Express or Fastify'],
  },

  nats: {
    kind: 'broker',
    peers: { '@nats-io/jetstream': '>=3' },
    kB: 7,
    page: 'docs/brokers.md',
    row: [
      'NATS',
      '`accepted`; `replicated` from 3 replicas on; `flushed` with `sync_interval: always`',
      "for the stream's `duplicate_window` (2 min unset)",
    ],
  },
  redis: {
    kind: 'broker',
    peers: { ioredis: '>=5', redis: '>=5' },
    kB: 8,
    page: 'docs/brokers.md',
    row: [
      'Redis',
      '`accepted`; `flushed` with `appendonly yes` and `appendfsync always`; `replicated` with `waitFor`',
      'from Redis 8.6 on (`IDMP`); before that it does not',
    ],
  },
  rabbitmq: {
    kind: 'broker',
    peers: { 'rabbitmq-client': '>=5.0.3' },
    kB: 7,
    page: 'docs/brokers.md',
    row: [
      'RabbitMQ',
      '`flushed` on durable quorum queues; `replicated` with `clustered: true`; else `accepted`',
      'it does not',
    ],
  },
  kafka: {
    kind: 'broker',
    peers: { '@platformatic/kafka': '>=1.35' },
    kB: 8,
    page: 'docs/brokers.md',
    row: [
      'Kafka',
      '`accepted`; `replicated` with at least 2 replicas and a `min.insync.replicas` of at least 2 (only if you pass `admin`)',
      'within one session of a producer only',
    ],
  },

  github: { kind: 'webhook', kB: 2, page: 'docs/consumer.md' },
  stripe: { kind: 'webhook', kB: 2, page: 'docs/consumer.md' },
  webhook: { kind: 'webhook', kB: 5, page: 'docs/consumer.md' },

  testing: { kind: 'testing', page: 'docs/testing.md' },
}
