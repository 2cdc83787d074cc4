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
}

/** What everything in the core may weigh: relay, consumers, dead letters and redrives included. */
export const CORE_KB = 77

/**
 * Everything the package exports beside its core. Exports, peers, ceilings and docs are checked against this list, so a
 * new store, framework or broker is a folder, a file in src/entry, one line here and one row of its contract test.
 */
export const SUBPATHS: Readonly<Record<string, Subpath>> = {
  drizzle: { kind: 'store', peers: { 'drizzle-orm': '>=0.40' }, kB: 44, page: 'docs/stores.md' },
  kysely: { kind: 'store', peers: { kysely: '>=0.27' }, kB: 43, page: 'docs/stores.md' },
  pg: { kind: 'store', peers: { pg: '>=8.11' }, kB: 48, page: 'docs/stores.md' },
  pglite: { kind: 'store', peers: { '@electric-sql/pglite': '>=0.3' }, kB: 42, page: 'docs/stores.md' },
  postgres: { kind: 'store', peers: { postgres: '>=3.4' }, kB: 43, page: 'docs/stores.md' },
  prisma: { kind: 'store', peers: { '@prisma/client': '>=6' }, kB: 43, page: 'docs/stores.md' },
  sqlite: { kind: 'store', peers: { libsql: '>=0.5' }, kB: 25, page: 'docs/stores.md' },

  express: { kind: 'framework', peers: { express: '>=4.18' }, kB: 21, page: 'docs/http.md' },
  fastify: { kind: 'framework', peers: { fastify: '>=5' }, kB: 21, page: 'docs/http.md' },
  fetch: { kind: 'framework', kB: 16, page: 'docs/http.md' },
  hono: { kind: 'framework', peers: { hono: '>=4' }, kB: 16, page: 'docs/http.md' },
  koa: { kind: 'framework', peers: { koa: '>=2.15' }, kB: 21, page: 'docs/http.md' },
  nest: { kind: 'framework', peers: { '@nestjs/common': '>=10', rxjs: '>=7' }, kB: 22, page: 'docs/http.md' },
  node: { kind: 'framework', kB: 21, page: 'docs/http.md' },

  kafka: { kind: 'broker', peers: { '@platformatic/kafka': '>=1.35' }, kB: 8, page: 'docs/brokers.md' },
  nats: { kind: 'broker', peers: { '@nats-io/jetstream': '>=3' }, kB: 7, page: 'docs/brokers.md' },
  rabbitmq: { kind: 'broker', peers: { 'rabbitmq-client': '>=5.0.3' }, kB: 7, page: 'docs/brokers.md' },
  redis: { kind: 'broker', peers: { ioredis: '>=5', redis: '>=5' }, kB: 8, page: 'docs/brokers.md' },

  github: { kind: 'webhook', kB: 2, page: 'docs/consumer.md' },
  stripe: { kind: 'webhook', kB: 2, page: 'docs/consumer.md' },
  webhook: { kind: 'webhook', kB: 5, page: 'docs/consumer.md' },

  testing: { kind: 'testing', page: 'docs/testing.md' },
}
