import { RELAY_SETTLE_MS, RELAY_UNPARK_EVENTS, SHARDS } from '../../limits.ts'
import type { Outbox, ResendParams, SettledEvents, SettleHeldParams, ShardState } from '../outbox.ts'
import type { Parked, SettledParked, SettleParkedParams } from '../parked.ts'
import { autocommit } from './client.ts'
import type { Client } from './client.ts'
import type { Connection, Work } from './database/connection.ts'
import { LineBroken, storeFailure } from './database/failure.ts'

/**
 * The outbox in memory. Every method is one statement that commits by itself, except the methods that settle held
 * events.
 */
export function memoryOutbox(client: Client): Outbox {
  const { statements } = client
  return {
    open: ({ destination, namespace = 0 }) =>
      autocommit(client, 'outbox.open', (work) => statements.openDestination(work, destination, namespace)),
    beat: (params) => autocommit(client, 'outbox.beat', (work) => statements.beat(work, params), 'aside'),
    lease: (params) => lease(client, params),
    read: (params) => autocommit(client, 'outbox.read', (work) => statements.readEvents(work, params)),
    ack: (params) => autocommit(client, 'outbox.ack', (work) => statements.ack(work, params)),
    async due(params) {
      const events = await autocommit(client, 'outbox.due', (work) => statements.due(work, params))
      if (events.length > 0) return { events, nextInMs: 0 }
      const { destination, shards } = params
      const nextInMs = await autocommit(client, 'outbox.nextDue', (work) =>
        statements.nextDue(work, destination, shards),
      )
      return { events, nextInMs }
    },
    tryHeld: (params) => autocommit(client, 'outbox.try', (work) => statements.tryHeld(work, params)),
    cancel: (params) => autocommit(client, 'outbox.cancel', (work) => statements.cancel(work, params)),
    takeDelayed: ({ ids }) => autocommit(client, 'outbox.take', (work) => statements.takeDelayed(work, ids)),
    heldBefore: (params) => autocommit(client, 'outbox.heldBefore', (work) => statements.heldBefore(work, params)),
    settleHeld: (params) => settleHeld(client, params),
    resend: (params) => resend(client, params),
    destinations: () => autocommit(client, 'outbox.destinations', (work) => statements.destinations(work)),
    forget: ({ destination }) =>
      autocommit(client, 'outbox.forget', (work) => statements.forgetDestination(work, destination)),
    release: (params) => autocommit(client, 'outbox.release', (work) => statements.releaseShards(work, params)),
    parked: memoryParked(client),
  }
}

/**
 * Runs three statements, each with its own snapshot. The held events are read after the cursors. So every event that a
 * late acknowledgement held is seen if its cursor is seen.
 */
async function lease(client: Client, params: Parameters<Outbox['lease']>[0]): Promise<ShardState[]> {
  const { statements } = client
  const { destination } = params
  const leased = await autocommit(client, 'outbox.lease', (work) => statements.leaseShards(work, params))
  if (leased.length === 0) return []
  const shards = leased.map(({ shard }) => shard)
  const cursors = await autocommit(client, 'outbox.cursors', (work) => statements.cursors(work, destination, shards))
  let blocked = await autocommit(client, 'outbox.blocked', (work) => statements.blocked(work, destination, shards))
  // A late acknowledgement may have parked events behind an event that an operator has released meanwhile.
  const parked = blocked.filter((of) => of.parked)
  if (parked.length > 0) {
    const put = await autocommit(client, 'outbox.orphans', (work) =>
      statements.unparkOrphans(work, destination, parked, RELAY_UNPARK_EVENTS),
    )
    if (put > 0) {
      await autocommit(client, 'outbox.promote', (work) => statements.promoteHeld(work, destination, parked))
      blocked = await autocommit(client, 'outbox.blocked', (work) => statements.blocked(work, destination, shards))
    }
  }
  // A late acknowledgement may have held events behind one that was settled meanwhile. Without a promotion, the first
  // of them would wait for ever.
  const touched = blocked.filter(({ parked }) => !parked)
  if (touched.length > 0)
    await autocommit(client, 'outbox.promote', (work) => statements.promoteHeld(work, destination, touched))
  return leased.map(({ shard, token }) => {
    const { cursor = 0, segment = 0, counted = 0, tryingTo = null, attempt = 0 } = cursors.get(shard) ?? {}
    const waiting = blocked.filter((of) => of.shard === shard)
    return { shard, token, cursor, segment, counted, tryingTo, attempt, blocked: waiting }
  })
}

/** Runs one statement per shard. */
async function resend(client: Client, params: ResendParams): Promise<number> {
  const number = client.pool.database.nextResend()
  let events = 0
  const first = (params.namespace ?? 0) * SHARDS
  for (let shard = first; shard < first + SHARDS; shard++) {
    events += await autocommit(client, 'outbox.resend', (work) => client.statements.resend(work, params, shard, number))
  }
  return events
}

function memoryParked(client: Client): Parked {
  const { statements } = client
  return {
    list: (params) => autocommit(client, 'parked.list', (work) => statements.listParked(work, params)),
    lines: (params) => autocommit(client, 'parked.lines', (work) => statements.parkedLines(work, params)),
    settle: (params) => settleParked(client, params),
  }
}

/** Locks the shard first, so that no relay settles its events at the same time. */
function settleParked(client: Client, params: SettleParkedParams): Promise<SettledParked> {
  const { statements } = client
  const { destination, shard } = params
  const nothing = { released: 0, skipped: 0, more: false }
  return fenced(
    client,
    (work) => statements.lockShard(work, destination, shard),
    async (connection, known) =>
      known ? connection.statement('parked.settle', (work) => statements.settleParked(work, params)) : nothing,
  )
}

/** Locks the rows of the leased shards first, so that no other relay takes them over before the commit. */
function settleHeld(client: Client, params: SettleHeldParams): Promise<SettledEvents> {
  const { statements } = client
  const { destination, leases } = params
  return fenced(
    client,
    (work) => statements.fenceShards(work, destination, leases),
    async (connection, shards) => {
      const ours = new Set(shards)
      const own = <T extends { readonly shard: number }>(rows: readonly T[]): T[] =>
        rows.filter((r) => ours.has(r.shard))
      const { sent, changed, kept, park, touched, released = [] } = params
      const mine = {
        sent: own(sent),
        changed: own(changed),
        kept: own(kept),
        park: own(park),
        touched: own(touched),
        released: own(released),
      }
      const settled = await connection.statement('outbox.settle', (work) =>
        statements.settleHeld(work, { destination, ...mine }),
      )
      return { ours: shards, ...settled }
    },
  )
}

async function fenced<F, T>(
  { pool }: Client,
  fence: (work: Work) => Promise<F>,
  settle: (connection: Connection, fence: F) => Promise<T>,
): Promise<T> {
  const connection = await pool.take()
  try {
    const found = await connection.trip('outbox.fence', (server) => {
      // The server ends the transaction at this deadline. A relay that stops here must not block the relay that takes
      // over.
      connection.begin({ deadlineMs: RELAY_SETTLE_MS })
      return connection.execute(server, 'outbox.fence', fence)
    })
    const settled = await settle(connection, found)
    const committed = await connection.trip('outbox.commit', async () => connection.tx?.commit())
    if (committed !== true) throw new LineBroken()
    return settled
  } catch (error) {
    connection.tx?.rollback()
    throw storeFailure(error)
  } finally {
    pool.give(connection)
  }
}
