import { RELAY_UNPARK_EVENTS } from '../../limits.ts'
import type { HeldBeforeParams } from '../held-before.ts'
import { HELD_STATES } from '../outbox.ts'
import type {
  BlockedAggregate,
  Due,
  DueParams,
  EventPlace,
  HeldEvent,
  HoldParams,
  SettledEvents,
  SettleHeldParams,
  ShardLease,
  TryHeldParams,
} from '../outbox.ts'
import type { Row } from '../store.ts'
import { NOW } from './migrations.ts'
import { EVENT_COLUMNS, eventOf, withinBytes } from './outbox-event.ts'
import type { Reader } from './reader.ts'
import type { Turn } from './turn.ts'
import type { Bindable } from './value.ts'

const OURS = 'select 1 from effectively_once_shard where destination = ? and shard = ? and token = ?'
const HOLD = `insert or ignore into effectively_once_held
  (destination, shard, seq, aggregateid, state, attempts, due_at, held_at, reason)
  values (?, ?, ?, ?, ?, ?, coalesce(?, ${NOW} + ?), ${NOW}, ?)`
const CHANGE = `update effectively_once_held set state = ?, attempts = ?, due_at = coalesce(?, ${NOW} + ?), reason = ?, tried = 0
  where destination = ? and shard = ? and seq = ?`
const TRY = `update effectively_once_held set tried = ?, due_at = coalesce(${NOW} + ?, due_at)
  where destination = ? and shard = ? and seq = ?`
const PARKED = `select 1 from effectively_once_held where destination = ? and shard = ? and seq = ? and state = 3`
const SENT = 'delete from effectively_once_held where destination = ? and shard = ? and seq = ?'
// A delayed event that comes earlier in line does not wait behind the parked one.
const PARK = `update effectively_once_held set state = 3, due_at = null, reason = null
  where destination = ?1 and shard = ?2 and aggregateid = ?3 and state = 1 and seq >
    (select min(x.seq) from effectively_once_held x
      where x.destination = ?1 and x.shard = ?2 and x.aggregateid = ?3 and x.state = 3 and x.reason is not null)`
const PROMOTE = `update effectively_once_held set due_at = ${NOW} where due_at is null and destination = ? and shard = ? and seq =
  (select min(seq) from effectively_once_held where destination = ? and shard = ? and aggregateid = ? and state = 1)`
const STILL_BLOCKED = `select shard, aggregateid, max(state = 3) as parked from effectively_once_held
  where destination = ? and shard = ? and aggregateid = ? and state in (1, 3) group by shard, aggregateid`
// Orphans: parked events without a failed event before them, because it was released.
const ORPHANS = `update effectively_once_held set state = 1, attempts = 0, tried = 0, due_at = null
  where destination = ?1 and shard = ?2 and seq in (select x.seq from effectively_once_held x
    where x.destination = ?1 and x.shard = ?2 and x.aggregateid = ?3 and x.state = 3 and x.reason is null
      and x.seq < coalesce((select min(y.seq) from effectively_once_held y
        where y.destination = ?1 and y.shard = ?2 and y.aggregateid = ?3 and y.state = 3 and y.reason is not null), 9223372036854775807)
    order by x.seq limit ?4)`
export const READ_BLOCKED = `select shard, aggregateid, max(state = 3) as parked from effectively_once_held
  where destination = ? and shard = ? and state in (1, 3) group by shard, aggregateid`

const MINE = 'h.shard in (select value from json_each(?))'
const HEADS = withinBytes(`select ${EVENT_COLUMNS}, h.state, h.attempts, h.tried, h.resend from effectively_once_held h
  join effectively_once_event e on e.seq = h.seq
  where h.destination = ? and h.due_at <= ${NOW} and ${MINE} and h.state in (1, 2)
    and h.aggregateid not in (select value from json_each(?)) order by h.due_at limit ?`)
const BEHIND = `select ${EVENT_COLUMNS}, h.state, h.attempts, h.tried, h.resend from effectively_once_held h
  join effectively_once_event e on e.seq = h.seq
  where h.destination = ? and h.shard = ? and h.aggregateid = ? and h.state = 1 and h.seq > ? order by h.seq limit ?`
const BEFORE = `select 1 from effectively_once_held
  where destination = ? and shard = ? and aggregateid = ? and seq < ? and state <> 4 limit 1`
const NEXT = `select min(h.due_at) - ${NOW} as next from effectively_once_held h
  where h.destination = ? and h.due_at is not null and ${MINE} and h.state in (1, 2)`

export function isOurs(turn: Turn, destination: string, { shard, token }: ShardLease): boolean {
  return turn.all(OURS, [destination, shard, token]).length === 1
}

export function hold(turn: Turn, destination: string, row: HoldParams): void {
  const { shard, seq, aggregateId } = row
  turn.run(HOLD, [destination, shard, seq, aggregateId, ...stateOf(row)])
}

export async function dueEvents(reader: Reader, params: DueParams): Promise<Due> {
  const { destination, shards, limit, behind, bytes = Number.MAX_SAFE_INTEGER, without = [] } = params
  const list = JSON.stringify(shards)
  const found = new Map<number, HeldEvent>()
  let left = bytes
  for (const head of (await reader.all(HEADS, [destination, list, JSON.stringify(without), limit, bytes])).map(
    heldOf,
  )) {
    if (left <= 0) break
    found.set(head.seq, head)
    left -= Buffer.byteLength(head.payload ?? '')
    if (head.state !== 'waiting' || left <= 0) continue
    const following = await reader.all(BEHIND, [destination, head.shard, head.aggregateId, head.seq, behind])
    for (const event of following.map(heldOf)) {
      if (left <= 0) break
      found.set(event.seq, event)
      left -= Buffer.byteLength(event.payload ?? '')
    }
  }
  if (found.size > 0) return { events: [...found.values()].sort((a, b) => a.seq - b.seq), nextInMs: 0 }
  const next = (await reader.all(NEXT, [destination, list]))[0]?.['next'] ?? null
  return { events: [], nextInMs: next === null ? null : Number(next) }
}

export async function heldBefore(reader: Reader, { destination, events }: HeldBeforeParams): Promise<EventPlace[]> {
  const found: EventPlace[] = []
  for (const { shard, seq, aggregateId } of events)
    if ((await reader.all(BEFORE, [destination, shard, aggregateId, seq])).length > 0) found.push({ shard, seq })
  return found
}

/** Makes the first waiting event of an aggregate due now, unless it has a time. */
export function promote(
  turn: Turn,
  destination: string,
  { shard, aggregateId }: Omit<BlockedAggregate, 'parked'>,
): void {
  turn.run(PROMOTE, [destination, shard, destination, shard, aggregateId])
}

/** Lets orphans wait in line again, the first ones first. Returns how many. */
export function unparkOrphans(
  turn: Turn,
  destination: string,
  { shard, aggregateId }: Omit<BlockedAggregate, 'parked'>,
  limit: number = RELAY_UNPARK_EVENTS,
): number {
  return turn.run(ORPHANS, [destination, shard, aggregateId, limit])
}

/** Counts a try of the events that are sent next. */
export function tryHeld(turn: Turn, { destination, leases, events }: TryHeldParams): number[] {
  const ours = leases.filter((lease) => isOurs(turn, destination, lease)).map(({ shard }) => shard)
  for (const { shard, seq, tried, dueInMs } of events) {
    if (ours.includes(shard)) turn.run(TRY, [tried, dueInMs, destination, shard, seq])
  }
  return ours
}

/** The events that are stored as parked. An event behind a parked one has no reason of its own, and is left out. */
export function parkedOf(turn: Turn, destination: string, rows: readonly HoldParams[]): EventPlace[] {
  const told = rows.filter(({ state, reason }) => state === 'parked' && reason !== null)
  return told.flatMap(({ shard, seq }) =>
    turn.all(PARKED, [destination, shard, seq]).length === 1 ? { shard, seq } : [],
  )
}

export function settleHeld(turn: Turn, params: SettleHeldParams): SettledEvents {
  const { destination } = params
  const ours = new Set(params.leases.filter((lease) => isOurs(turn, destination, lease)).map(({ shard }) => shard))
  const own = <T extends { readonly shard: number }>(rows: readonly T[]): T[] => rows.filter((r) => ours.has(r.shard))
  for (const { shard, seq } of own(params.sent)) turn.run(SENT, [destination, shard, seq])
  for (const row of own(params.changed)) turn.run(CHANGE, [...stateOf(row), destination, row.shard, row.seq])
  for (const { shard, seq, tried } of own(params.kept)) turn.run(TRY, [tried, null, destination, shard, seq])
  for (const { shard, aggregateId } of own(params.park)) turn.run(PARK, [destination, shard, aggregateId])
  for (const place of own(params.released ?? [])) unparkOrphans(turn, destination, place)
  const blocked = own(params.touched).flatMap(({ shard, aggregateId }) => {
    promote(turn, destination, { shard, aggregateId })
    return turn.all(STILL_BLOCKED, [destination, shard, aggregateId]).map(blockedOf)
  })
  return { ours: [...ours], parked: parkedOf(turn, destination, own(params.changed)), blocked }
}

export function blockedOf(row: Row): BlockedAggregate {
  return { shard: Number(row['shard']), aggregateId: String(row['aggregateid']), parked: Number(row['parked']) === 1 }
}

/** state, attempts, due at, due in, reason */
function stateOf({ state, attempts, notBefore, dueInMs, reason }: HoldParams): Bindable[] {
  return [HELD_STATES.indexOf(state), attempts, notBefore === null ? null : Date.parse(notBefore), dueInMs, reason]
}

function heldOf(row: Row): HeldEvent {
  const state = Number(row['state']) === 2 ? 'delayed' : 'waiting'
  const [attempts, tried, resend] = [row['attempts'], row['tried'], row['resend']].map(Number) as [
    number,
    number,
    number,
  ]
  return { ...eventOf(row), state, attempts, tried, resend }
}
