import { sha256Hex } from '../../../platform/sha256.ts'

/**
 * Advisory locks belong to the database, but our locks must belong to a schema: two tenants with the same key in their
 * own schemas must not block each other. The default schema uses the plain numbers. Any other schema mixes a hash of
 * its name into them.
 *
 * Older code uses the plain numbers in every schema. If it runs in the same schema during an upgrade, keys and messages
 * are slower, but correct. Primary keys guarantee uniqueness, so a request waits for the other commit instead of being
 * refused at once. The order of events would break; see `shardLocks`.
 */
const DEFAULT_SCHEMA = '"effectively_once"'

/** First half of the two-part advisory lock that orders the events of one shard. */
export const EVENT_LOCK_CLASS = 0x0e0e

/** The lock number of a key or a message in this schema. `given`: a bigint. */
export function lockIn(schema: string, given: string): string {
  return schema === DEFAULT_SCHEMA ? given : `(${given} # (${BigInt.asIntN(64, hashOf(schema))})::bigint)`
}

/**
 * The locks that a producer takes before it draws an event's number, as expressions in this order. Outside the default
 * schema, a producer takes its schema's lock and a share of the lock that older code takes exclusively. Without that
 * share, older and newer producers could commit in another order than their numbers. A cursor would then pass an event
 * that is not committed yet.
 */
export function shardLocks(schema: string, shard: string): readonly string[] {
  if (schema === DEFAULT_SCHEMA) return [`pg_advisory_xact_lock(${EVENT_LOCK_CLASS}, ${shard})`]
  return [
    `pg_advisory_xact_lock_shared(${EVENT_LOCK_CLASS}, ${shard})`,
    `pg_advisory_xact_lock(${shardClassIn(schema)}, ${shard})`,
  ]
}

/** The first half of a shard's lock, in this schema. */
export function shardClassIn(schema: string): number {
  return schema === DEFAULT_SCHEMA ? EVENT_LOCK_CLASS : Number(BigInt.asIntN(32, hashOf(schema)))
}

/** The lock of a transaction that registers a namespace. */
export function namespacesLock(schema: string): string {
  return `(${BigInt.asIntN(64, hashOf(schema, 'namespaces'))})::bigint`
}

function hashOf(schema: string, what = 'schema'): bigint {
  return BigInt(`0x${sha256Hex(`eo:${what}:1;${schema}`).slice(0, 16)}`)
}
