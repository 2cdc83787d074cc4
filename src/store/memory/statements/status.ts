import { SHARDS } from '../../../limits.ts'
import { partsOf } from '../../namespaced/names.ts'
import { COUNTED_MAX, type StatusParams, type StoredStatus } from '../../status.ts'
import type { Work } from '../database/connection.ts'
import { listOperations } from './operation.ts'
import { cursors } from './relay.ts'

const ANY = { state: null, route: null, label: null, scope: null, olderThanMs: 0, limit: COUNTED_MAX } as const

/** Counts the committed rows in the same way as the SQL stores. */
export function statusOf(work: Work, { namespace, no }: StatusParams): StoredStatus {
  const { database, tx } = work
  const now = database.now()
  const rowsOf = <T extends object>(table: { rows(of: typeof tx): readonly (readonly [string, T])[] }): T[] =>
    table.rows(tx).map(([, row]) => row)
  const ageOf = (times: readonly number[]): number | null =>
    times.length === 0 ? null : now / 1000 - Math.min(...times)
  const shards = Array.from({ length: SHARDS }, (_, i) => no * SHARDS + i)
  const eventsAfter = (shard: number, cursor: number): number[] =>
    database.events.after(shard, cursor, COUNTED_MAX).map(({ createdAt }) => createdAt / 1000)
  const operations = listOperations(work, { ...ANY, namespace })
  const abandoned = operations.filter(({ state }) => state === 'abandoned')
  const counted = (wanted: string): number => operations.filter(({ state }) => state === wanted).length
  const names = new Set(rowsOf(database.shards).flatMap((row) => (shards.includes(row.shard) ? row.destination : [])))
  const unsent = names.size > 0 ? [] : shards.flatMap((shard) => eventsAfter(shard, 0))
  const consumers = rowsOf(database.consumers).filter(({ name }) => partsOf(name).no === no)
  return {
    operations: {
      running: counted('running'),
      abandoned: abandoned.length,
      unknown: counted('unknown'),
      oldestAbandonedMs: abandoned.length === 0 ? null : Math.max(...abandoned.map((one) => -(one.leaseLeftMs ?? 0))),
    },
    destinations: [...names].sort().map((name) => {
      const read = cursors(work, name, shards)
      const waiting = shards.flatMap((shard) => eventsAfter(shard, read.get(shard)?.cursor ?? 0))
      const held = rowsOf(database.held).filter(({ destination }) => destination === name)
      const failed = held.filter(({ state, reason }) => state === 'waiting' && reason !== null)
      return {
        name,
        waiting: waiting.length,
        oldestMs: ageOf(waiting),
        parked: held.filter(({ state }) => state === 'parked').length,
        retrying: failed.length,
        error: failed[0]?.reason ?? null,
        relays: rowsOf(database.relays).filter((one) => one.destination === name && one.until > now).length,
      }
    }),
    unsent: { events: unsent.length, oldestMs: ageOf(unsent) },
    consumers: consumers.map(({ name, seenAt, rememberForMs: rememberMs }) => {
      const letters = rowsOf(database.letters).filter((one) => one.consumer === name && one.state === 'parked')
      const failed = rowsOf(database.attempts).filter((one) => one.consumer === name && one.timeline.length > 0)
      return {
        name,
        seenAgoMs: (now - seenAt) / 1000,
        rememberMs,
        letters: letters.length,
        oldestLetterMs: ageOf(letters.map(({ parkedAt }) => parkedAt)),
        retrying: failed.length,
        error: failed[0]?.timeline.at(-1)?.error ?? null,
      }
    }),
    sweptAgoMs: null,
    sizes: [],
  }
}
