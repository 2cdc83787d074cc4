import { SHARDS } from '../../limits.ts'
import type { Ack, Acked, AckParams, Beat, BeatParams, EventsRead, Outbox, ReadEventsParams } from '../outbox.ts'
import type { LeaseShardsParams, ReleaseParams, ShardState } from '../outbox.ts'
import { rewoundShards } from '../rewound.ts'
import { cancel, takeDelayed } from './delayed.ts'
import {
  blockedOf,
  dueEvents,
  heldBefore,
  hold,
  isOurs,
  parkedOf,
  promote,
  READ_BLOCKED,
  settleHeld,
  tryHeld,
} from './held.ts'
import { unparkOrphans } from './held.ts'
import { NOW } from './migrations.ts'
import { EVENT_COLUMNS, eventOf, withinBytes } from './outbox-event.ts'
import { fileIdentity } from './file-identity.ts'
import { forget, resend } from './outbox-resend.ts'
import { sqliteParked } from './parked.ts'
import type { Reader } from './reader.ts'
import { writeAudit } from './redrives.ts'
import type { Turn } from './turn.ts'
import type { Writer } from './writer.ts'

const OPEN = 'insert or ignore into effectively_once_shard (destination, shard) values (?, ?)'
const PRESENT = `insert or replace into effectively_once_relay (destination, id, until) values (?, ?, ${NOW} + ?)`
const FORGET_RELAYS = `delete from effectively_once_relay where until < ${NOW} - 3600000`
const LEAVE = 'delete from effectively_once_relay where destination = ? and id = ?'
const EXTEND = `update effectively_once_shard set lease_until = ${NOW} + ? where destination = ? and shard = ? and token = ?`
const DUE = `select 1 from effectively_once_held where destination = ? and due_at <= ${NOW} and state in (1, 2)
  and shard in (select value from json_each(?)) limit 1`
const DESTINATIONS = 'select distinct destination from effectively_once_shard order by 1'
const RELAYS = `select count(*) as relays from effectively_once_relay where destination = ? and id <> ? and until > ${NOW}`
const FREE = `select count(*) as free from effectively_once_shard where destination = ? and lease_until <= ${NOW}`
// A token is at least SQLite's time, so a restored backup does not use the lost tokens again.
const LEASE = `update effectively_once_shard set token = max(token + 1, ${NOW}), lease_until = ${NOW} + ? where destination = ? and shard in
  (select shard from effectively_once_shard where destination = ? and lease_until <= ${NOW} order by shard limit ?)
  returning shard, token`
/** Tokens never fall, so only a restored database has a lower one. 0: the destination was removed, and is new. */
const LEASE_FORGOTTEN =
  'select 1 from effectively_once_shard where destination = ? and shard = ? and token > 0 and token < ?'
const CURSOR = 'select cursor, trying_to, attempt from effectively_once_ack where destination = ? and shard = ?'
const EVENT_ID = 'select id from effectively_once_event where seq = ? and shard = ?'
const READ = `select * from (select ${EVENT_COLUMNS} from effectively_once_event e where e.shard = ? and e.seq > ? order by e.seq limit ?)`
const ACK = `insert into effectively_once_ack (destination, shard, cursor, trying_to, attempt, token) values (?, ?, ?, ?, ?, ?)
  on conflict (destination, shard) do update set cursor = max(cursor, excluded.cursor),
    trying_to = excluded.trying_to, attempt = excluded.attempt, token = excluded.token`
// The new token prevents that a late heartbeat renews a lease that nobody holds.
const RELEASE = `update effectively_once_shard set lease_until = 0, token = token + 1
  where destination = ? and shard = ? and token = ?`
// Only the same token may take back an intent. The intent of a dead relay stays as evidence.
const UNTRIED = `update effectively_once_ack set trying_to = null, attempt = 0
  where destination = ? and shard = ? and token = ?`

/** The relay on SQLite: every write is a short transaction, fenced by its token under the writer's lock. */
export function sqliteOutbox({ writer, reader }: { writer: Writer; reader: Reader }): Outbox {
  return {
    identity: () => fileIdentity(reader),
    open: ({ destination, namespace = 0 }) =>
      writer.write((turn) => {
        const first = namespace * SHARDS
        for (let shard = first; shard < first + SHARDS; shard++) turn.run(OPEN, [destination, shard])
      }),
    // Goes ahead of the queue: a lease must not lapse because many others wait.
    beat: (params) => writer.write((turn) => beat(turn, params), { urgent: true }),
    lease: (params) => writer.write((turn) => lease(turn, params)),
    read: (params) => read(reader, params),
    ack: (params) => writer.write((turn) => ack(turn, params)),
    due: (params) => dueEvents(reader, params),
    tryHeld: (params) => writer.write((turn) => tryHeld(turn, params)),
    cancel: (params) => writer.write((turn) => cancel(turn, params)),
    takeDelayed: ({ ids }) => writer.write((turn) => takeDelayed(turn, ids)),
    heldBefore: (params) => heldBefore(reader, params),
    settleHeld: (params) => writer.write((turn) => settleHeld(turn, params)),
    resend: (params) => writer.write((turn) => resend(turn, params)),
    destinations: async () => (await reader.all(DESTINATIONS)).map((row) => String(row['destination'])),
    forget: ({ destination }) => writer.write((turn) => forget(turn, destination)),
    release: (params) => writer.write((turn) => release(turn, params)),
    parked: sqliteParked({ writer, reader }),
  }
}

function beat(turn: Turn, { destination, relay, leaseMs, presentMs = leaseMs, leases }: BeatParams): Beat {
  turn.run(FORGET_RELAYS)
  turn.run(PRESENT, [destination, relay, presentMs])
  const ours = leases
    .filter(({ shard, cursor, seen }) => !isForgotten(turn, destination, { shard, from: cursor, seen: seen && [seen] }))
    .filter(({ shard, token }) => turn.run(EXTEND, [leaseMs, destination, shard, token]) === 1)
  return {
    relays: Number(turn.all(RELAYS, [destination, relay])[0]?.['relays']) + 1,
    free: Number(turn.all(FREE, [destination])[0]?.['free']),
    ours: ours.map(({ shard }) => shard),
    due: turn.all(DUE, [destination, JSON.stringify(leases.map(({ shard }) => shard))]).length > 0,
  }
}

function lease(turn: Turn, { destination, leaseMs, limit }: LeaseShardsParams): ShardState[] {
  return turn.all(LEASE, [leaseMs, destination, destination, limit]).map((row) => {
    const shard = Number(row['shard'])
    const [left] = turn.all(CURSOR, [destination, shard])
    const tryingTo = left?.['trying_to'] ?? null
    const orphaned = turn
      .all(READ_BLOCKED, [destination, shard])
      .map(blockedOf)
      .filter((of) => of.parked && unparkOrphans(turn, destination, of) > 0)
    for (const of of orphaned) promote(turn, destination, of)
    const blocked = turn.all(READ_BLOCKED, [destination, shard]).map(blockedOf)
    for (const of of blocked) if (!of.parked) promote(turn, destination, of)
    return {
      shard,
      token: Number(row['token']),
      cursor: Number(left?.['cursor'] ?? 0),
      segment: 0,
      counted: 0,
      tryingTo: tryingTo === null ? null : Number(tryingTo),
      attempt: Number(left?.['attempt'] ?? 0),
      blocked,
    }
  })
}

/** SQLite has no segments. */
const UNSEALED = { seal: null, isKnown: true, server: null }

async function read(reader: Reader, params: ReadEventsParams): Promise<EventsRead> {
  const { destination, from, perShard, limit, bytes = Number.MAX_SAFE_INTEGER } = params
  const free = Number((await reader.all(FREE, [destination]))[0]?.['free']) > 0
  if (from.length === 0) return { events: [], cut: false, free, ...UNSEALED }
  // Reads all shards in one statement. A shard that the limit cuts off is read the next time, and no event is passed.
  const sql = withinBytes(`${from.map(() => READ).join(' union all ')} limit ?`)
  const rows = await reader.all(sql, [...from.flatMap(({ shard, cursor }) => [shard, cursor, perShard]), limit, bytes])
  const end = Number(rows.at(-1)?.['end'] ?? 0)
  return { events: rows.map(eventOf), cut: rows.length >= limit || end >= bytes, free, ...UNSEALED }
}

function ack(turn: Turn, { destination, acks, hold: held }: AckParams): Acked {
  const forgotten = new Set(acks.filter((of) => isForgotten(turn, destination, of)).map(({ shard }) => shard))
  const ours = acks.filter((of) => !forgotten.has(of.shard) && isOurs(turn, destination, of))
  for (const { shard, cursor, tryingTo, attempt, token } of ours) {
    turn.run(ACK, [destination, shard, cursor, tryingTo, attempt, token])
  }
  const shards = new Set(ours.map(({ shard }) => shard))
  const written = held.filter(({ shard }) => shards.has(shard))
  for (const row of written) hold(turn, destination, row)
  return { ours: [...shards], parked: parkedOf(turn, destination, written) }
}

/** The file has a cursor at least as new as the relay's. After a restored backup, it has not. */
function hasReached(turn: Turn, destination: string, shard: number, cursor = 0): boolean {
  return cursor === 0 || cursor <= Number(turn.all(CURSOR, [destination, shard])[0]?.['cursor'] ?? 0)
}

function isForgotten(
  turn: Turn,
  destination: string,
  { shard, from, seen = [] }: Pick<Ack, 'shard' | 'from' | 'seen'>,
): boolean {
  if (!hasReached(turn, destination, shard, from)) return true
  return seen.some(({ seq, id }) => turn.all(EVENT_ID, [seq, shard])[0]?.['id'] !== id)
}

function release(turn: Turn, { destination, relay, leases, leaving, rewound }: ReleaseParams): number {
  const cursorOf = (shard: number): number => Number(turn.all(CURSOR, [destination, shard])[0]?.['cursor'] ?? 0)
  const isBehind = ({ shard, token, known = 0 }: ReleaseParams['leases'][number]): boolean =>
    turn.all(LEASE_FORGOTTEN, [destination, shard, token]).length > 0 && cursorOf(shard) < known
  const forgotten = rewound ? leases.filter(isBehind) : []
  const ours = leases.filter(({ shard, token }) => turn.run(RELEASE, [destination, shard, token]) === 1)
  for (const { shard, token } of ours) turn.run(UNTRIED, [destination, shard, token])
  if (leaving) turn.run(LEAVE, [destination, relay])
  const told = [...ours, ...forgotten]
  if (rewound && told.length > 0) writeAudit(turn, rewoundShards(rewound, told, cursorOf))
  return told.length
}
