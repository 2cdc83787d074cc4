import { SHARDS } from '../../../limits.ts'
import type {
  Acked,
  AckParams,
  Beat,
  BeatParams,
  EventPlace,
  EventsRead,
  LeaseShardsParams,
  ReadEventsParams,
  ReleaseParams,
  ShardLease,
  StoredEvent,
} from '../../outbox.ts'
import { rewoundShards } from '../../rewound.ts'
import type { Work } from '../database/connection.ts'
import { ackKey, heldKey, relayKey, shardKey, storedEventOf } from '../database/rows.ts'
import type { AckRow } from '../database/rows.ts'
import type { Table } from '../database/table.ts'
import { heldRowOf, isDue, isTold } from './held.ts'
import { writeAudit } from './redrive.ts'

const FORGOTTEN_MICROS = 3_600_000_000

/** Creates the rows of the shards, which no relay has leased yet. */
export async function openDestination({ database, tx }: Work, destination: string, namespace: number): Promise<void> {
  for (let shard = namespace * SHARDS; shard < (namespace + 1) * SHARDS; shard++) {
    const row = { destination, shard, token: 0, leaseUntil: Number.NEGATIVE_INFINITY }
    await database.shards.insert(shardKey(destination, shard), row, tx)
  }
}

/**
 * Reports that the relay is alive, renews its leases, and returns what the other relays do. The result shows the state
 * before this statement's own changes.
 */
export async function beat(
  work: Work,
  { destination, relay, leaseMs, presentMs = leaseMs, leases }: BeatParams,
): Promise<Beat> {
  const { database, tx } = work
  const now = database.now()
  let relays = 1
  for (const [key, row] of database.relays.rows(tx)) {
    if (row.destination !== destination || row.id === relay) continue
    if (row.until > now) relays += 1
    else if (row.until < now - FORGOTTEN_MICROS && !database.relays.locked(key, tx, 'update'))
      database.relays.put(key, undefined, tx)
  }
  const free = freeShards(work, destination)
  const due = isDue(
    work,
    destination,
    leases.map(({ shard }) => shard),
  )
  const key = relayKey(destination, relay)
  const until = now + presentMs * 1000
  const present = { destination, id: relay, until }
  if (!(await database.relays.insert(key, present, tx))) {
    await database.relays.lock(key, tx, 'update')
    database.relays.put(key, present, tx)
  }
  const ours: number[] = []
  for (const { shard, token } of leases) {
    const row = await database.shards.lock(shardKey(destination, shard), tx, 'update', (of) => of.token === token)
    if (row === undefined) continue
    database.shards.put(shardKey(destination, shard), { ...row, leaseUntil: database.now() + leaseMs * 1000 }, tx)
    ours.push(shard)
  }
  return { relays, free, ours, due }
}

/** Leases free shards, and skips locked ones. */
export function leaseShards(
  { database, tx }: Work,
  { destination, leaseMs, limit }: Omit<LeaseShardsParams, 'relay'>,
): ShardLease[] {
  const taken: ShardLease[] = []
  const now = database.now()
  for (const [key, row] of database.shards.rows(tx)) {
    if (taken.length >= limit) break
    if (row.destination !== destination || row.leaseUntil > now || database.shards.locked(key, tx, 'update')) continue
    const token = Math.max(row.token + 1, now)
    database.shards.put(key, { ...row, token, leaseUntil: now + leaseMs * 1000 }, tx)
    taken.push({ shard: row.shard, token })
  }
  return taken
}

/** The newest cursor of each shard, as its last owner left it. */
export function cursors({ database, tx }: Work, destination: string, shards: readonly number[]): Map<number, AckRow> {
  const wanted = new Set(shards)
  const newest = new Map<number, AckRow>()
  for (const [, row] of database.acks.rows(tx)) {
    if (row.destination !== destination || !wanted.has(row.shard)) continue
    const known = newest.get(row.shard)
    if (known === undefined || isNewer(row, known)) newest.set(row.shard, row)
  }
  return newest
}

function isNewer(a: AckRow, b: AckRow): boolean {
  return a.cursor > b.cursor || (a.cursor === b.cursor && a.token > b.token)
}

/** Reads the events behind the cursors, and whether a shard is free. */
export function readEvents(work: Work, params: ReadEventsParams): EventsRead {
  const { destination, from, perShard, limit, bytes = Infinity } = params
  const events: StoredEvent[] = []
  let left = bytes
  for (const { shard, cursor } of from) {
    const rows = work.database.events.after(shard, cursor, Math.min(perShard, limit - events.length))
    for (const row of rows) {
      if (events.length >= limit || left <= 0) break
      events.push(storedEventOf(row))
      left -= Buffer.byteLength(events.at(-1)?.payload ?? '')
    }
  }
  const cut = events.length >= limit || left <= 0
  return { events, cut, free: freeShards(work, destination) > 0, seal: null, isKnown: true, server: null }
}

/**
 * Inserts cursors where the caller's token is still current. It locks no shard, so a late acknowledgement may still be
 * written. Memory cannot be restored to an earlier state, so that case is not checked.
 */
export async function ack(work: Work, { destination, acks, hold }: AckParams): Promise<Acked> {
  const { database, tx } = work
  const ours: number[] = []
  for (const { shard, cursor, token, segment, counted, tryingTo, attempt } of acks) {
    if (database.shards.seen(shardKey(destination, shard), tx)?.token !== token) continue
    ours.push(shard)
    const row: AckRow = { destination, shard, cursor, token, segment, counted, tryingTo, attempt }
    if (await database.acks.insert(ackKey(row), row, tx)) continue
    // The same owner announces another batch from the same cursor.
    if ((await database.acks.lock(ackKey(row), tx, 'update')) !== undefined) database.acks.put(ackKey(row), row, tx)
  }
  const now = database.now()
  const parked: EventPlace[] = []
  for (const of of hold) {
    if (!ours.includes(of.shard)) continue
    const key = heldKey(destination, of.shard, of.seq)
    const known = database.held.seen(key, tx)
    const held = await database.held.insert(key, heldRowOf(of, destination, now), tx)
    // Another process may have held the event in another state meanwhile. Then this row was not written.
    if (isTold(of) && (held || known?.state === 'parked')) parked.push({ shard: of.shard, seq: of.seq })
  }
  return { ours, parked }
}

export function destinations({ database, tx }: Work): string[] {
  return [...new Set(database.shards.rows(tx).map(([, { destination }]) => destination))].sort()
}

/** Deletes every row of a destination. A relay that still runs finds that it holds no shard. */
export async function forgetDestination({ database, tx }: Work, destination: string): Promise<void> {
  for (const table of [database.relays, database.held, database.acks, database.shards] as Table<Placed>[]) {
    for (const [key] of table.rows(tx).filter(([, row]) => row.destination === destination)) {
      if ((await table.lock(key, tx, 'update')) !== undefined) table.put(key, undefined, tx)
    }
  }
}

interface Placed {
  readonly destination: string
}

/** Releases shards under a new token, and withdraws the announcement of a batch that was not sent. */
export async function releaseShards(work: Work, params: ReleaseParams): Promise<number> {
  const released: ReleaseParams['leases'][number][] = []
  const { database, tx } = work
  const { destination, relay, leases, leaving, rewound } = params
  const newest = cursors(
    work,
    destination,
    leases.map(({ shard }) => shard),
  )
  const cursorOf = (shard: number): number => newest.get(shard)?.cursor ?? 0
  for (const lease of leases) {
    const { shard, token, known = 0 } = lease
    const key = shardKey(destination, shard)
    const seen = database.shards.seen(key, tx)?.token ?? 0
    // A token never decreases, so a lower one means that the database was restored to a time before the lease.
    if (rewound && seen > 0 && seen < token && cursorOf(shard) < known) released.push(lease)
    const row = await database.shards.lock(key, tx, 'update', (of) => of.token === token)
    if (row === undefined) continue
    released.push(lease)
    database.shards.put(key, { ...row, token: token + 1, leaseUntil: Number.NEGATIVE_INFINITY }, tx)
    const left = newest.get(shard)
    if (left === undefined || left.token !== token || left.tryingTo === null) continue
    await database.acks.lock(ackKey(left), tx, 'update')
    database.acks.put(ackKey(left), { ...left, tryingTo: null, attempt: 0 }, tx)
  }
  const own = relayKey(destination, relay)
  if (leaving && (await database.relays.lock(own, tx, 'update')) !== undefined) database.relays.put(own, undefined, tx)
  if (rewound && released.length > 0) await writeAudit(work, rewoundShards(rewound, released, cursorOf))
  return released.length
}

function freeShards({ database, tx }: Work, destination: string): number {
  const now = database.now()
  let free = 0
  for (const [, row] of database.shards.rows(tx)) {
    if (row.destination === destination && row.leaseUntil <= now) free += 1
  }
  return free
}
