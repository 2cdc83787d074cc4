import { SHARDS } from '../../limits.ts'
import type { Acked, AckParams, Beat, BeatParams, EventsRead, Outbox, ReadEventsParams, ShardState } from '../outbox.ts'
import type { LeaseShardsParams, ReleaseParams } from '../outbox.ts'
import { blockedOf, dueEvents, hold, isOurs, parkedOf, promote, READ_BLOCKED, settleHeld, tryHeld } from './held.ts'
import { NOW } from './migrations.ts'
import { EVENT_COLUMNS, eventOf } from './outbox-event.ts'
import { forget, resend } from './outbox-resend.ts'
import type { Reader } from './reader.ts'
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
const RELAYS = `select count(*) as relays from effectively_once_relay where destination = ? and until > ${NOW}`
const FREE = `select count(*) as free from effectively_once_shard where destination = ? and lease_until <= ${NOW}`
const LEASE = `update effectively_once_shard set token = token + 1, lease_until = ${NOW} + ? where destination = ? and shard in
  (select shard from effectively_once_shard where destination = ? and lease_until <= ${NOW} order by shard limit ?)
  returning shard, token`
const CURSOR = 'select cursor, trying_to, attempt from effectively_once_ack where destination = ? and shard = ?'
const READ = `select * from (select ${EVENT_COLUMNS} from effectively_once_event e where e.shard = ? and e.seq > ? order by e.seq limit ?)`
const ACK = `insert into effectively_once_ack (destination, shard, cursor, trying_to, attempt, token) values (?, ?, ?, ?, ?, ?)
  on conflict (destination, shard) do update set cursor = max(cursor, excluded.cursor),
    trying_to = excluded.trying_to, attempt = excluded.attempt, token = excluded.token`
// A new token: a late heartbeat cannot lease it again for nobody.
const RELEASE = `update effectively_once_shard set lease_until = 0, token = token + 1
  where destination = ? and shard = ? and token = ?`
// What a dead relay left is evidence, and stays.
const UNTRIED = `update effectively_once_ack set trying_to = null, attempt = 0
  where destination = ? and shard = ? and token = ?`

/** The relay on SQLite: every write is a short transaction, fenced by its token under the writer's lock. */
export function sqliteOutbox({ writer, reader }: { writer: Writer; reader: Reader }): Outbox {
  return {
    open: ({ destination }) =>
      writer.write((turn) => {
        for (let shard = 0; shard < SHARDS; shard++) turn.run(OPEN, [destination, shard])
      }),
    // Ahead of the queue: a lease must not lapse because many others wait.
    beat: (params) => writer.write((turn) => beat(turn, params), { urgent: true }),
    lease: (params) => writer.write((turn) => lease(turn, params)),
    read: (params) => read(reader, params),
    ack: (params) => writer.write((turn) => ack(turn, params)),
    due: (params) => dueEvents(reader, params),
    tryHeld: (params) => writer.write((turn) => tryHeld(turn, params)),
    settleHeld: (params) => writer.write((turn) => settleHeld(turn, params)),
    resend: (params) => writer.write((turn) => resend(turn, params)),
    destinations: async () => (await reader.all(DESTINATIONS)).map((row) => String(row['destination'])),
    forget: ({ destination }) => writer.write((turn) => forget(turn, destination)),
    release: (params) => writer.write((turn) => release(turn, params)),
  }
}

function beat(turn: Turn, { destination, relay, leaseMs, leases }: BeatParams): Beat {
  turn.run(FORGET_RELAYS)
  turn.run(PRESENT, [destination, relay, leaseMs])
  const ours = leases.filter(({ shard, token }) => turn.run(EXTEND, [leaseMs, destination, shard, token]) === 1)
  return {
    relays: Number(turn.all(RELAYS, [destination])[0]?.['relays']),
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

async function read(reader: Reader, { destination, from, perShard, limit }: ReadEventsParams): Promise<EventsRead> {
  const free = Number((await reader.all(FREE, [destination]))[0]?.['free']) > 0
  if (from.length === 0) return { events: [], free, sealed: 0 }
  // One look at each shard, in one statement: nothing is passed, whichever is cut off at the end.
  const sql = `${from.map(() => READ).join(' union all ')} limit ?`
  const rows = await reader.all(sql, [...from.flatMap(({ shard, cursor }) => [shard, cursor, perShard]), limit])
  return { events: rows.map(eventOf), free, sealed: 0 }
}

function ack(turn: Turn, { destination, acks, hold: held }: AckParams): Acked {
  const ours = acks.filter((of) => isOurs(turn, destination, of))
  for (const { shard, cursor, tryingTo, attempt, token } of ours) {
    turn.run(ACK, [destination, shard, cursor, tryingTo, attempt, token])
  }
  const shards = new Set(ours.map(({ shard }) => shard))
  const written = held.filter(({ shard }) => shards.has(shard))
  for (const row of written) hold(turn, destination, row)
  return { ours: [...shards], parked: parkedOf(turn, destination, written) }
}

function release(turn: Turn, { destination, relay, leases, leaving }: ReleaseParams): void {
  for (const { shard, token } of leases) {
    if (turn.run(RELEASE, [destination, shard, token]) === 1) turn.run(UNTRIED, [destination, shard, token])
  }
  if (leaving) turn.run(LEAVE, [destination, relay])
}
