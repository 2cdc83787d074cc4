/** What each one is, and what it does not promise. Shown on the page beside its figures. */
export interface Peer {
  readonly title: string
  /** In bench/peers; null: it is in this repository. */
  readonly packageName: string | null
  readonly notPromised: string
}

/** Through HTTP, one charge row each. */
export const HTTP_PEERS: Readonly<Record<string, Peer & { readonly base: string }>> = {
  'fastify.bare': {
    title: 'Fastify, bare',
    packageName: null,
    base: 'fastify.bare',
    notPromised: 'Anything: a retry charges again.',
  },
  'fastify.hand': {
    title: 'Fastify, textbook by hand',
    packageName: null,
    base: 'fastify.bare',
    notPromised: 'A duplicate of a running request waits for it and holds a connection. Old keys stay for ever.',
  },
  'fastify.atomic': {
    title: 'Fastify, effectively-once, atomic',
    packageName: null,
    base: 'fastify.bare',
    notPromised: 'Effects outside the database transaction.',
  },
  'fastify.batched': {
    title: 'Fastify, effectively-once, batched',
    packageName: null,
    base: 'fastify.bare',
    notPromised: 'Effects that are more than one SQL statement.',
  },
  nodeIdempotency: {
    title: 'Fastify, @node-idempotency + Redis',
    packageName: '@node-idempotency/core',
    base: 'fastify.bare',
    notPromised:
      'Not atomic: after a crash between charge and answer, the key is refused until it expires. A Redis that loses the key charges again.',
  },
  powertools: {
    title: 'Fastify, Powertools + Redis',
    packageName: '@aws-lambda-powertools/idempotency',
    base: 'fastify.bare',
    notPromised:
      'Not atomic: after a crash between charge and answer, the charge runs again when the key in progress expires. Another input under the same key gets the first answer.',
  },
  dbos: {
    title: 'Fastify, DBOS workflow',
    packageName: '@dbos-inc/dbos-sdk',
    base: 'fastify.bare',
    notPromised:
      'A duplicate of a running request waits for its result. The same key with another input gets the first answer.',
  },
  'express.bare': {
    title: 'Express, bare',
    packageName: null,
    base: 'express.bare',
    notPromised: 'Anything: a retry charges again.',
  },
  'express.atomic': {
    title: 'Express, effectively-once, atomic',
    packageName: null,
    base: 'express.bare',
    notPromised: 'Effects outside the database transaction.',
  },
  expressIdempotency: {
    title: 'Express, express-idempotency + Redis',
    packageName: 'express-idempotency',
    base: 'express.bare',
    notPromised: 'Not atomic, and two duplicates at once may both charge. The answer is sent before it is stored.',
  },
}

/** One event or job published with a charge, and one receipt written by its consumer. */
export const QUEUE_PEERS: Readonly<Record<string, Peer>> = {
  atomic: {
    title: 'effectively-once, atomic',
    packageName: null,
    notPromised: 'Effects of the handler outside its transaction.',
  },
  batched: {
    title: 'effectively-once, batched',
    packageName: null,
    notPromised: 'Effects of the handler outside its transaction.',
  },
  graphileWorker: {
    title: 'graphile-worker',
    packageName: 'graphile-worker',
    notPromised:
      'At least once: after a crash between the receipt and the end of the job, it writes the receipt again.',
  },
  pgBoss: {
    title: 'pg-boss, transactional worker',
    packageName: 'pg-boss',
    notPromised: 'No order per aggregate. No key and answer for the request that publishes.',
  },
  pgTransactionalOutbox: {
    title: 'pg-transactional-outbox, polling',
    packageName: 'pg-transactional-outbox',
    notPromised: 'No key and answer for the request that publishes.',
  },
}
