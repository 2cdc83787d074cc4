/** What a subpath of the package is. */
export type SubpathKind =
  | 'store'
  | 'cache'
  | 'framework'
  | 'agent'
  | 'natural'
  | 'broker'
  | 'host'
  | 'webhook'
  | 'telemetry'
  | 'client'
  | 'operators'
  | 'testing'

export interface Subpath {
  readonly kind: SubpathKind
  /** The optional peers whose client the user passes in, with the tested versions. */
  readonly peers?: Readonly<Record<string, string>>
  /**
   * The maximum size that the subpath may add to the core, minified and gzipped. Absent if the code is not shipped to
   * servers.
   */
  readonly kB?: number
  /** The page that documents the subpath. */
  readonly page: string
  /** The row of the subpath in the table of its kind (scripts/manifest.ts), without the name of the subpath. */
  readonly row?: readonly string[]
}

/** The maximum size of the core, including relay, consumers, dead letters and redrives. */
export const CORE_KB = 99

/**
 * Every subpath of the package besides its core, in the order of the docs. `npm run manifest` writes exports, peers and
 * tables from this list, and tests check them. A new store, framework or broker needs a folder, a file in src/entry,
 * one entry here and one row of its contract test.
 */
export const SUBPATHS: Readonly<Record<string, Subpath>> = {
  pg: {
    kind: 'store',
    peers: { pg: '>=8.11' },
    kB: 57,
    page: 'docs/stores.md',
    row: ['node-postgres', '`pgStore(pool)`', "the pool's client"],
  },
  postgres: {
    kind: 'store',
    peers: { postgres: '>=3.4' },
    kB: 52,
    page: 'docs/stores.md',
    row: ['postgres.js', '`postgresJsStore(sql)`', '`TransactionSql`'],
  },
  pglite: {
    kind: 'store',
    peers: { '@electric-sql/pglite': '>=0.3' },
    kB: 51,
    page: 'docs/stores.md',
    row: ['PGlite', '`pgliteStore(db)`', "PGlite's `Transaction`"],
  },
  drizzle: {
    kind: 'store',
    peers: { 'drizzle-orm': '>=0.40' },
    kB: 53,
    page: 'docs/stores.md',
    row: ['Drizzle (PostgreSQL)', '`drizzleStore(db)`', 'your Drizzle transaction'],
  },
  kysely: {
    kind: 'store',
    peers: { kysely: '>=0.27' },
    kB: 51,
    page: 'docs/stores.md',
    row: ['Kysely (PostgreSQL)', "`kyselyStore(db, { dialect: 'postgres' })`", '`Transaction<DB>`'],
  },
  prisma: {
    kind: 'store',
    peers: { '@prisma/client': '>=6' },
    kB: 52,
    page: 'docs/stores.md',
    row: ['Prisma (PostgreSQL)', "`prismaStore(db, { dialect: 'postgres' })`", '`Prisma.TransactionClient`'],
  },
  sqlite: {
    kind: 'store',
    peers: { libsql: '>=0.5' },
    kB: 31,
    page: 'docs/stores.md',
    row: ['SQLite, or no database yet', '`sqliteStore({ file })`', '`query(sql, values)`'],
  },
  'redis-store': {
    kind: 'store',
    peers: { ioredis: '>=5', redis: '>=5' },
    kB: 17,
    page: 'docs/stores.md',
    row: ['Redis or Valkey (ioredis, redis)', '`redisStore(client)`', 'none: leased operations only'],
  },

  tiered: {
    kind: 'cache',
    peers: { ioredis: '>=5', redis: '>=5' },
    kB: 6,
    page: 'docs/stores.md',
  },

  node: {
    kind: 'framework',
    kB: 33,
    page: 'docs/http.md',
    row: ['wrapped handler', '`IncomingMessage`'],
  },
  express: {
    kind: 'framework',
    peers: { express: '>=4.18' },
    kB: 33,
    page: 'docs/http.md',
    row: ['wrapped handler', 'Express 4 or 5 request'],
  },
  fastify: {
    kind: 'framework',
    peers: { fastify: '>=5' },
    kB: 33,
    page: 'docs/http.md',
    row: ['wrapped handler', 'Fastify 5 request'],
  },
  fetch: {
    kind: 'framework',
    kB: 26,
    page: 'docs/http.md',
    row: ['wrapped handler', '`Request`'],
  },
  hono: {
    kind: 'framework',
    peers: { hono: '>=4' },
    kB: 26,
    page: 'docs/http.md',
    row: ['middleware', 'Hono context'],
  },
  koa: {
    kind: 'framework',
    peers: { koa: '>=2.15' },
    kB: 33,
    page: 'docs/http.md',
    row: ['middleware', 'Koa context'],
  },
  nest: {
    kind: 'framework',
    peers: { '@nestjs/common': '>=10', rxjs: '>=7' },
    kB: 35,
    page: 'docs/http.md',
    row: ['module, decorator, context', 'request of Express or Fastify'],
  },

  mcp: { kind: 'agent', peers: { '@modelcontextprotocol/sdk': '>=1.20' }, kB: 8, page: 'docs/agents.md' },
  natural: { kind: 'natural', kB: 3, page: 'docs/natural-idempotency.md' },

  nats: {
    kind: 'broker',
    peers: { '@nats-io/jetstream': '>=3' },
    kB: 7,
    page: 'docs/brokers.md',
    row: [
      'NATS',
      '`accepted`; `replicated` with 3 or more replicas; `flushed` with `sync_interval: always`',
      "for the stream's `duplicate_window` (default 2 min)",
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
      'with Redis 8.6 and later (`IDMP`)',
    ],
  },
  rabbitmq: {
    kind: 'broker',
    peers: { 'rabbitmq-client': '>=5.0.3' },
    kB: 7,
    page: 'docs/brokers.md',
    row: ['RabbitMQ', '`flushed` on durable quorum queues; `replicated` with `clustered: true`; else `accepted`', 'no'],
  },
  kafka: {
    kind: 'broker',
    peers: { '@platformatic/kafka': '>=1.35' },
    kB: 8,
    page: 'docs/brokers.md',
    row: [
      'Kafka',
      '`accepted`; `replicated` with at least 2 replicas and a `min.insync.replicas` of at least 2 (only if you pass `admin`)',
      'only within one producer session',
    ],
  },

  sqs: {
    kind: 'broker',
    peers: { '@aws-sdk/client-sqs': '>=3.1000', '@aws-sdk/client-sns': '>=3.1000' },
    kB: 8,
    page: 'docs/brokers.md',
    row: ['SQS, SNS', '`replicated` in a queue of amazonaws.com; else `accepted`', 'FIFO: for 5 min; standard: no'],
  },

  lambda: { kind: 'host', kB: 6, page: 'docs/lambda.md' },

  github: { kind: 'webhook', kB: 2, page: 'docs/consumer.md' },
  stripe: { kind: 'webhook', kB: 2, page: 'docs/consumer.md' },
  webhook: { kind: 'webhook', kB: 5, page: 'docs/consumer.md' },

  otel: { kind: 'telemetry', peers: { '@opentelemetry/api': '>=1.9' }, kB: 6, page: 'docs/observability.md' },
  prometheus: { kind: 'telemetry', kB: 5, page: 'docs/observability.md' },

  // The page loads it without the core: test/client/size.test.ts weighs it alone.
  client: { kind: 'client', page: 'docs/client.md' },
  'client-browser': { kind: 'client', page: 'docs/client.md' },
  'client-node': { kind: 'client', peers: { ioredis: '>=5', libsql: '>=0.5', redis: '>=5' }, page: 'docs/client.md' },
  react: { kind: 'client', peers: { react: '>=18' }, page: 'docs/client.md' },
  reconciliation: { kind: 'operators', kB: 5, page: 'docs/reconciliation.md' },

  testing: { kind: 'testing', page: 'docs/testing.md' },
}
