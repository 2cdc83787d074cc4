import { RELAY_UNPARK_EVENTS } from '../../../limits.ts'
import type {
  BlockedAggregate,
  DueParams,
  EventPlace,
  HeldEvent,
  HoldParams,
  SettledEvents,
  SettleHeldParams,
  ShardLease,
  TryHeldParams,
} from '../../outbox.ts'
import type { HeldBeforeParams } from '../../held-before.ts'
import type { Work } from '../database/connection.ts'
import { heldKey, shardKey, storedEventOf } from '../database/rows.ts'
import type { HeldRow } from '../database/rows.ts'

interface Place {
  readonly shard: number
  readonly aggregateId: string
}

/** The aggregates whose events wait or are parked. */
export function blocked({ database, tx }: Work, destination: string, shards: readonly number[]): BlockedAggregate[] {
  const wanted = new Set(shards)
  return blockedOf(
    database.held
      .rows(tx)
      .flatMap(([, row]) => (row.destination === destination && wanted.has(row.shard) ? [row] : [])),
  )
}

/** The first event of each line that is due, with the events that wait behind it. */
export function due({ database, tx }: Work, params: DueParams): HeldEvent[] {
  const { destination, shards, limit, behind, bytes = Infinity, without = [] } = params
  const now = database.now()
  const wanted = new Set(shards)
  const rows = database.held.rows(tx).map(([, row]) => row)
  const heads = rows
    .filter((row) => row.destination === destination && wanted.has(row.shard) && isWaiting(row))
    .filter(({ dueAt, aggregateId }) => dueAt !== null && dueAt <= now && !without.includes(aggregateId))
    .sort((a, b) => (a.dueAt as number) - (b.dueAt as number))
    .slice(0, limit)
  const found = new Map<HeldRow, HeldRow>()
  for (const head of heads) {
    found.set(head, head)
    if (head.state !== 'waiting') continue
    const line = rows.filter((row) => row.state === 'waiting' && isWith(row, destination, head) && row.seq > head.seq)
    for (const row of bySeq(line).slice(0, behind)) found.set(row, row)
  }
  let left = bytes
  return bySeq([...found.keys()]).flatMap((row) => {
    const event = database.events.find(row.shard, row.seq)
    if (event === undefined || !isWaiting(row) || left <= 0) return []
    left -= Buffer.byteLength(storedEventOf(event).payload ?? '')
    const { attempts, tried, resend: number } = row
    return { ...storedEventOf(event), state: row.state as 'waiting' | 'delayed', attempts, tried, resend: number }
  })
}

export function heldBefore({ database, tx }: Work, { destination, events }: HeldBeforeParams): EventPlace[] {
  const rows = database.held.rows(tx).map(([, row]) => row)
  const isHeld = ({ state }: HeldRow): boolean => state !== 'skipped'
  return events.filter((event) =>
    rows.some((row) => isHeld(row) && isWith(row, destination, event) && row.seq < event.seq),
  )
}

/** Whether these shards have a due event. Another process may have held it. */
export function isDue({ database, tx }: Work, destination: string, shards: readonly number[]): boolean {
  const now = database.now()
  return database.held
    .rows(tx)
    .some(
      ([, row]) =>
        row.destination === destination &&
        isWaiting(row) &&
        row.dueAt !== null &&
        row.dueAt <= now &&
        shards.includes(row.shard),
    )
}

/** The time until the next held event is due, in milliseconds. */
export function nextDue({ database, tx }: Work, destination: string, shards: readonly number[]): number | null {
  let first: number | null = null
  for (const [, row] of database.held.rows(tx)) {
    if (row.destination !== destination || !shards.includes(row.shard) || !isWaiting(row) || row.dueAt === null)
      continue
    first = Math.min(first ?? row.dueAt, row.dueAt)
  }
  return first === null ? null : (first - database.now()) / 1000
}

/** Locks the shards that the caller still leases until the settlement commits, and returns them. */
export async function fenceShards(
  { database, tx }: Work,
  destination: string,
  leases: readonly ShardLease[],
): Promise<number[]> {
  const ours: number[] = []
  for (const { shard, token } of [...leases].sort((a, b) => a.shard - b.shard)) {
    const row = await database.shards.lock(shardKey(destination, shard), tx, 'share', (of) => of.token === token)
    if (row !== undefined) ours.push(shard)
  }
  return ours
}

/**
 * Counts the attempts of the events that are sent next. The shards are read without a lock, so a relay that lost its
 * lease may count one attempt too many.
 */
export async function tryHeld(work: Work, { destination, leases, events }: TryHeldParams): Promise<number[]> {
  const { database, tx } = work
  const ours = leases
    .filter(({ shard, token }) => database.shards.seen(shardKey(destination, shard), tx)?.token === token)
    .map(({ shard }) => shard)
  const now = database.now()
  for (const { shard, seq, tried, dueInMs } of events) {
    if (!ours.includes(shard)) continue
    const key = heldKey(destination, shard, seq)
    const known = await database.held.lock(key, tx, 'update')
    if (known === undefined) continue
    const dueAt = dueInMs === null ? known.dueAt : now + dueInMs * 1000
    database.held.put(key, { ...known, tried, dueAt }, tx)
  }
  return ours
}

/**
 * The statements of a settlement, in this order: delete sent events, update failed ones, reset kept ones, park, promote
 * the next event of each line, and read the blocked aggregates.
 */
export async function settleHeld(
  work: Work,
  { destination, sent, changed, kept, park, touched, released = [] }: Omit<SettleHeldParams, 'leases'>,
): Promise<Omit<SettledEvents, 'ours'>> {
  const { held } = work.database
  const { tx } = work
  const now = work.database.now()
  const parked: EventPlace[] = []
  for (const { shard, seq } of sent) {
    const key = heldKey(destination, shard, seq)
    if ((await held.lock(key, tx, 'update')) !== undefined) held.put(key, undefined, tx)
  }
  for (const of of changed) {
    const key = heldKey(destination, of.shard, of.seq)
    const known = await held.lock(key, tx, 'update')
    if (known === undefined) continue
    held.put(key, { ...heldRowOf(of, destination, now, known.resend), heldAt: known.heldAt }, tx)
    if (isTold(of)) parked.push({ shard: of.shard, seq: of.seq })
  }
  for (const { shard, seq, tried } of kept) {
    const key = heldKey(destination, shard, seq)
    const known = await held.lock(key, tx, 'update')
    if (known !== undefined) held.put(key, { ...known, tried }, tx)
  }
  for (const place of park) {
    const heads = held.rows(tx).flatMap(([, row]) => (isHead(row) && isWith(row, destination, place) ? [row.seq] : []))
    // A delayed event with a lower sequence number does not wait behind the head.
    for (const row of lineOf(work, destination, place).filter(({ seq }) => seq > Math.min(...heads))) {
      const key = heldKey(destination, row.shard, row.seq)
      const known = await held.lock(key, tx, 'update', ({ state }) => state === 'waiting')
      if (known !== undefined) held.put(key, { ...known, state: 'parked', dueAt: null, reason: null }, tx)
    }
  }
  await unparkOrphans(work, destination, released, RELAY_UNPARK_EVENTS)
  await promoteHeld(work, destination, touched)
  const blocked = touched.flatMap((place) =>
    blockedOf(held.rows(tx).flatMap(([, row]) => (isWith(row, destination, place) ? [row] : []))),
  )
  return { parked, blocked }
}

/** Puts parked events without a parked head back in line, in order. Returns their number. */
export async function unparkOrphans(
  work: Work,
  destination: string,
  places: readonly Place[],
  limit: number,
): Promise<number> {
  const { held } = work.database
  let put = 0
  for (const place of places) {
    const parked = bySeq(
      held.rows(work.tx).flatMap(([, row]) => (row.state === 'parked' && isWith(row, destination, place) ? [row] : [])),
    )
    const head = parked.findIndex(({ reason }) => reason !== null)
    for (const row of parked.slice(0, head < 0 ? parked.length : head).slice(0, limit - put)) {
      const key = heldKey(destination, row.shard, row.seq)
      const known = await held.lock(key, work.tx, 'update', isOrphan)
      if (known === undefined) continue
      held.put(key, { ...known, state: 'waiting', attempts: 0, tried: 0, dueAt: null }, work.tx)
      put += 1
    }
  }
  return put
}

function isHead({ state, reason }: HeldRow): boolean {
  return state === 'parked' && reason !== null
}

function isOrphan({ state, reason }: HeldRow): boolean {
  return state === 'parked' && reason === null
}

/** Makes the first waiting event of each aggregate due now, unless it already has a time. */
export async function promoteHeld(work: Work, destination: string, places: readonly Place[]): Promise<void> {
  const { held } = work.database
  for (const place of places) {
    const [first] = lineOf(work, destination, place)
    if (first === undefined || first.dueAt !== null) continue
    const key = heldKey(destination, first.shard, first.seq)
    const known = await held.lock(key, work.tx, 'update', ({ state, dueAt }) => state === 'waiting' && dueAt === null)
    if (known !== undefined) held.put(key, { ...known, dueAt: work.database.now() }, work.tx)
  }
}

export function heldRowOf(of: HoldParams, destination: string, now: number, resend = 0): HeldRow {
  const { shard, seq, aggregateId, state, attempts, reason, dueInMs, notBefore } = of
  const dueAt = notBefore !== null ? Date.parse(notBefore) * 1000 : dueInMs === null ? null : now + dueInMs * 1000
  return { destination, shard, seq, aggregateId, state, attempts, tried: 0, resend, dueAt, heldAt: now, reason }
}

/** An event that is parked behind another one has no reason of its own, and is not reported. */
export function isTold({ state, reason }: HoldParams): boolean {
  return state === 'parked' && reason !== null
}

function lineOf({ database, tx }: Work, destination: string, place: Place): HeldRow[] {
  const rows = database.held.rows(tx).map(([, row]) => row)
  return bySeq(rows.filter((row) => row.state === 'waiting' && isWith(row, destination, place)))
}

function blockedOf(rows: readonly HeldRow[]): BlockedAggregate[] {
  const found = new Map<string, BlockedAggregate>()
  for (const { shard, aggregateId, state } of rows) {
    if (state !== 'waiting' && state !== 'parked') continue
    const parked = state === 'parked' || found.get(aggregateId)?.parked === true
    found.set(aggregateId, { shard, aggregateId, parked })
  }
  return [...found.values()]
}

function isWaiting({ state }: HeldRow): boolean {
  return state === 'waiting' || state === 'delayed'
}

function isWith(row: HeldRow, destination: string, { shard, aggregateId }: Place): boolean {
  return row.destination === destination && row.shard === shard && row.aggregateId === aggregateId
}

function bySeq(rows: HeldRow[]): HeldRow[] {
  return rows.sort((a, b) => a.shard - b.shard || a.seq - b.seq)
}
