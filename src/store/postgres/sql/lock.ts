import { sha256Hex } from '../../../platform/sha256.ts'

/**
 * Advisory locks belong to the database, ours to a schema: two tenants with the same key in schemas of their own must not
 * lock each other out. The default schema keeps the bare numbers; any other mixes a hash of its name in.
 *
 * While code from before runs in such a schema beside ours, its numbers are the bare ones. For keys and messages that is
 * slower, not wrong: what is unique rests on primary keys, so one waits for the other's commit instead of being refused at
 * once. For the order of events it would be wrong; see `shardLocks`.
 */
const DEFAULT_SCHEMA = '"effectively_once"'

/** First half of the two-part advisory lock that orders the events of one shard. */
export const EVENT_LOCK_CLASS = 0x0e0e

/** The number of a key's or a message's lock, in this schema. `given`: a bigint. */
export function lockIn(schema: string, given: string): string {
  return schema === DEFAULT_SCHEMA ? given : `(${given} # (${BigInt.asIntN(64, hashOf(schema))})::bigint)`
}

/**
 * What a producer locks before it draws the number of an event: expressions, in this order. Outside the default schema
 * its own lock of the schema, and a share of the lock that code from before takes whole: two who did not meet at all could
 * commit in another order than their numbers say, and a cursor would pass what is not there yet.
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

/** Held by whoever registers a namespace. */
export function namespacesLock(schema: string): string {
  return `(${BigInt.asIntN(64, hashOf(schema, 'namespaces'))})::bigint`
}

function hashOf(schema: string, what = 'schema'): bigint {
  return BigInt(`0x${sha256Hex(`eo:${what}:1;${schema}`).slice(0, 16)}`)
}
