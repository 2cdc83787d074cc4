import { onceError } from '../../errors.ts'
import { ANSWER_SLACK_MS, RELAY_SETTLE_MS, RELAY_UNPARK_EVENTS, SHARDS } from '../../limits.ts'
import { readNotBefore } from '../not-before.ts'
import type { HeldBeforeParams } from '../held-before.ts'
import { HELD_STATES } from '../outbox.ts'
import type { Cancellation } from '../cancellation.ts'
import type { DatabaseIdentity } from '../database-identity.ts'
import type {
  Acked,
  AckParams,
  Beat,
  BeatParams,
  BlockedAggregate,
  Calls,
  CancelParams,
  Due,
  DueParams,
  EventPlace,
  EventsRead,
  HoldParams,
  NotTaken,
  LeaseShardsParams,
  OpenDestinationParams,
  Outbox,
  ReadEventsParams,
  ReleaseParams,
  ResendParams,
  SettledEvents,
  SettleHeldParams,
  ShardLease,
  ShardState,
  StoredEvent,
  TakeDelayedParams,
  TryHeldParams,
} from '../outbox.ts'
import type { Parked } from '../parked.ts'
import type { Row } from '../store.ts'
import { arrayLiteral, arraysOf } from './array-literal.ts'
import { cancelDelayed } from './delayed.ts'
import type { PgConnection, PgDriver, PgStatement } from './driver/driver.ts'
import { storeError, told } from './errors.ts'
import { identityOf } from './identity.ts'
import { postgresCalls } from './outbox-calls.ts'
import { blockedOf, byShard, eventOf, numberOrNull, numbersOf, placesOf } from './outbox-rows.ts'
import { postgresParked } from './parked.ts'
import type { Bind, StatementName } from './statements.ts'

/** The relay on PostgreSQL. Every method is one statement, except for held events. */
export class PostgresOutbox<Tx> implements Outbox {
  readonly calls: Calls | undefined
  readonly parked: Parked
  readonly #driver: PgDriver<Tx>
  readonly #bind: Bind
  readonly #schema: string
  /** By destination. The relays of a destination in this process share one connection. */
  readonly #connections = new Map<string, Pick<PgDriver<Tx>, 'query'>>()

  constructor(driver: PgDriver<Tx>, bind: Bind, schema: string) {
    this.#driver = driver
    this.#bind = bind
    this.#schema = schema
    this.calls = postgresCalls(driver, schema)
    this.parked = postgresParked(driver, bind, schema)
  }

  async open({ destination, namespace = 0 }: OpenDestinationParams): Promise<void> {
    await this.#query('openDestination', [destination, SHARDS, namespace * SHARDS])
  }

  async beat({ destination, relay, leaseMs, presentMs = leaseMs, leases }: BeatParams): Promise<Beat> {
    const values = [
      destination,
      relay,
      leaseMs,
      ...leaseArrays(leases),
      presentMs,
      arrayLiteral(leases.map(({ cursor }) => cursor ?? 0)),
      arrayLiteral(leases.map(({ seen }) => seen?.segment ?? null)),
      arrayLiteral(leases.map(({ seen }) => seen?.seq ?? null)),
      arrayLiteral(leases.map(({ seen }) => seen?.id ?? null)),
    ]
    const [row] = await this.#query('beat', values, { query: (statement) => this.#driver.aside(statement) })
    return {
      relays: Number(row?.['relays']),
      free: Number(row?.['free']),
      ours: numbersOf(row?.['ours']),
      due: row?.['due'] === true,
    }
  }

  async lease({ destination, leaseMs, limit }: LeaseShardsParams): Promise<readonly ShardState[]> {
    const leased = await this.#query('leaseShards', [destination, leaseMs, limit])
    if (leased.length === 0) return []
    const shards = arrayLiteral(leased.map((row) => Number(row['shard'])))
    const cursors = byShard(await this.#query('cursors', [destination, shards]))
    // Read them after the cursors. Then the held events of a late acknowledgement are seen at least up to its cursor.
    let found = await this.#query('blocked', [destination, shards])
    // A late acknowledgement may also have parked events behind one that was released meanwhile.
    const orphaned = found.filter((row) => row['orphaned'] === true).map(blockedOf)
    if (orphaned.length > 0) {
      await this.#query('unparkOrphans', [destination, ...aggregateArrays(orphaned), RELAY_UNPARK_EVENTS])
      found = await this.#query('blocked', [destination, shards])
    }
    const blocked = found.map(blockedOf)
    // It may have held events behind one that was settled meanwhile. The first of them would wait for ever.
    const waiting = [...blocked.filter(({ parked }) => !parked), ...orphaned]
    if (waiting.length > 0) await this.#query('promoteHeld', [destination, ...aggregateArrays(waiting)])
    return leased.map((row) => {
      const shard = Number(row['shard'])
      const left = cursors.get(shard)
      return {
        shard,
        token: Number(row['token']),
        cursor: Number(left?.['cursor'] ?? 0),
        segment: Number(left?.['event_segment'] ?? 0),
        counted: Number(left?.['counted'] ?? 0),
        tryingTo: typeof left?.['trying_to'] === 'number' ? left['trying_to'] : null,
        attempt: Number(left?.['attempt'] ?? 0),
        blocked: blocked.filter((aggregate) => aggregate.shard === shard),
      }
    })
  }

  async read(params: ReadEventsParams): Promise<EventsRead> {
    const { destination, from, perShard, limit, bytes = BYTES_MAX, seal, server = null } = params
    const values = [
      destination,
      ...arraysOf(from, 'shard', 'cursor'),
      perShard,
      limit,
      ...arraysOf(from, 'segment'),
      bytes,
      seal?.segment ?? null,
      seal?.at ?? null,
      server,
    ]
    const rows = await this.#query('readEvents', values, this.#connectionFor(destination))
    const [first] = rows
    const sealed = first?.['sealed']
    const events = first?.['seq'] === null ? [] : rows.map(eventOf)
    return {
      events,
      cut: events.length >= limit || isFull(events, bytes),
      free: first?.['free'] === true,
      seal: typeof sealed === 'number' ? { segment: sealed, at: String(first?.['sealed_at']) } : null,
      isKnown: first?.['is_known'] === true,
      server: typeof first?.['server'] === 'string' ? first['server'] : null,
    }
  }

  async ack({ destination, server, acks, hold }: AckParams): Promise<Acked> {
    const seen = acks.flatMap((of) => of.seen ?? [])
    const values = [
      destination,
      ...arraysOf(acks, 'shard', 'cursor', 'token', 'tryingTo', 'attempt', 'segment', 'counted'),
      arrayLiteral(acks.map(({ from }) => from ?? 0)),
      arrayLiteral(acks.flatMap(({ shard, seen = [] }) => seen.map(() => shard))),
      ...arraysOf(seen, 'segment', 'seq', 'id'),
      ...heldArrays(hold),
      server ?? null,
    ]
    const [row] = await this.#query('ack', values, this.#connectionFor(destination))
    return { ours: numbersOf(row?.['ours']), parked: placesOf(row?.['parked']) }
  }

  async due({ destination, shards, limit, behind, bytes = BYTES_MAX, without = [] }: DueParams): Promise<Due> {
    const list = arrayLiteral(shards)
    const rows = await this.#query('due', [destination, list, limit, behind, bytes, arrayLiteral(without)])
    const events = rows.map((row) => ({
      ...eventOf(row),
      state: row['state'] === 2 ? ('delayed' as const) : ('waiting' as const),
      attempts: Number(row['attempts']),
      tried: Number(row['tried']),
      resend: Number(row['resend']),
    }))
    const [next] = events.length > 0 ? [] : await this.#query('nextDue', [destination, list])
    return { events, nextInMs: events.length > 0 ? 0 : numberOrNull(next?.['next_in_ms']) }
  }

  async tryHeld({ destination, leases, events }: TryHeldParams): Promise<readonly number[]> {
    const [row] = await this.#query('tryHeld', [
      destination,
      ...leaseArrays(leases),
      ...arraysOf(events, 'shard', 'seq', 'tried', 'dueInMs'),
    ])
    return numbersOf(row?.['ours'])
  }

  cancel(params: CancelParams): Promise<Cancellation> {
    return cancelDelayed((name, values) => this.#query(name, values), params)
  }

  async takeDelayed({ ids, namespace = 0 }: TakeDelayedParams): Promise<readonly NotTaken[]> {
    const rows = await this.#query('takeDelayed', [arrayLiteral(ids), namespace])
    return rows.map((row) => ({ id: String(row['id']), cancelled: row['cancelled'] === true }))
  }

  identity(): Promise<DatabaseIdentity> {
    return identityOf(this.#driver, this.#bind, this.#schema)
  }

  async heldBefore({ destination, events }: HeldBeforeParams): Promise<readonly EventPlace[]> {
    const rows = await this.#query('heldBefore', [destination, ...arraysOf(events, 'shard', 'seq', 'aggregateId')])
    return rows.map((row) => ({ shard: Number(row['shard']), seq: Number(row['seq']) }))
  }

  async settleHeld(params: SettleHeldParams): Promise<SettledEvents> {
    const { destination, leases, server = null } = params
    return told(this.#schema, async () => {
      const { connection, rows } = await this.#driver.begin(
        this.#bind('fenceShards', [destination, ...leaseArrays(leases), String(RELAY_SETTLE_MS), server]),
        { withinMs: RELAY_SETTLE_MS + ANSWER_SLACK_MS },
      )
      try {
        const ours = new Set(rows.map((row) => Number(row['shard'])))
        const settled = await this.#settle(connection, params, ours)
        if ((await connection.commit()) !== 'committed') throw onceError('ONCE_ROLLED_BACK')
        return settled
      } catch (error) {
        await connection.rollback()
        throw error
      }
    })
  }

  /** Runs shard by shard, so that no statement takes long. */
  async resend({ destination, namespace = 0, since, until, type, aggregateId }: ResendParams): Promise<number> {
    const [next] = await this.#query('nextResend', [])
    let events = 0
    for (let shard = namespace * SHARDS; shard < (namespace + 1) * SHARDS; shard++) {
      const chosen = [destination, shard, since, until, type, aggregateId]
      const times = (await this.#query('resendTimes', chosen)).map((event) => ({
        seq: Number(event['seq']),
        notBefore: readNotBefore(String(event['not_before'])) ?? null,
      }))
      const [row] = await this.#query('resend', [
        ...chosen,
        Number(next?.['no']),
        ...arraysOf(times, 'seq', 'notBefore'),
      ])
      events += Number(row?.['events'])
    }
    return events
  }

  async destinations(): Promise<readonly string[]> {
    return (await this.#query('destinations', [])).map((row) => String(row['destination']))
  }

  async forget({ destination }: { readonly destination: string }): Promise<void> {
    await this.#query('forgetDestination', [destination])
  }

  async release({ destination, relay, leases, leaving, rewound }: ReleaseParams): Promise<number> {
    const known = arrayLiteral(leases.map((lease) => lease.known ?? 0))
    const told = [known, rewound?.by ?? null, rewound?.destination ?? null]
    const values = [destination, ...leaseArrays(leases), leaving ? relay : null, ...told]
    const [row] = await this.#query('releaseShards', values)
    return Number(row?.['released'])
  }

  async #settle(
    connection: PgConnection<Tx>,
    { destination, sent, changed, kept, park, touched, released = [] }: SettleHeldParams,
    ours: ReadonlySet<number>,
  ): Promise<SettledEvents> {
    const own = <T extends { readonly shard: number }>(rows: readonly T[]): T[] => rows.filter((r) => ours.has(r.shard))
    // This statement comes first, so that its rows are the first result.
    const statements: PgStatement[] = [this.#bind('changeHeld', [destination, ...heldArrays(own(changed))])]
    if (sent.length > 0) statements.push(this.#bind('deleteHeld', [destination, ...placeArrays(own(sent))]))
    if (kept.length > 0)
      statements.push(this.#bind('keepHeld', [destination, ...arraysOf(own(kept), 'shard', 'seq', 'tried')]))
    if (park.length > 0) statements.push(this.#bind('parkHeld', [destination, ...aggregateArrays(own(park))]))
    if (released.length > 0) {
      const values = [destination, ...aggregateArrays(own(released)), RELAY_UNPARK_EVENTS]
      statements.push(this.#bind('unparkOrphans', values))
    }
    const again = [destination, ...aggregateArrays(own(touched))]
    statements.push(this.#bind('promoteHeld', again), this.#bind('stillBlocked', again))
    const outcome = await connection.pipeline(statements, 'ours')
    if (outcome.kind === 'failed') throw outcome.error
    const parked = (outcome.rows[0] ?? []).filter((row) => row['parked'] === true)
    return {
      ours: [...ours],
      parked: parked.map((row) => ({ shard: Number(row['shard']), seq: Number(row['seq']) })),
      blocked: (outcome.rows.at(-1) ?? []).map(blockedOf),
    }
  }

  /** A connection for the relay's hot path, so that it does not wait for the rest of the pool. */
  #connectionFor(destination: string): Pick<PgDriver<Tx>, 'query'> {
    const connection = this.#connections.get(destination) ?? this.#driver.separateConnection?.() ?? this.#driver
    this.#connections.set(destination, connection)
    return connection
  }

  async #query(
    name: StatementName,
    values: readonly unknown[],
    on: Pick<PgDriver<Tx>, 'query'> = this.#driver,
  ): Promise<readonly Row[]> {
    try {
      return await on.query(this.#bind(name, values))
    } catch (error) {
      throw storeError(error, this.#schema)
    }
  }
}

function leaseArrays(leases: readonly ShardLease[]): string[] {
  return arraysOf(leases, 'shard', 'token')
}

function aggregateArrays(places: readonly Omit<BlockedAggregate, 'parked'>[]): string[] {
  return arraysOf(places, 'shard', 'aggregateId')
}

function placeArrays(places: readonly EventPlace[]): string[] {
  return arraysOf(places, 'shard', 'seq')
}

function heldArrays(rows: readonly HoldParams[]): string[] {
  return [
    ...arraysOf(rows, 'shard', 'seq', 'aggregateId'),
    arrayLiteral(rows.map(({ state }) => HELD_STATES.indexOf(state))),
    ...arraysOf(rows, 'attempts', 'dueInMs', 'notBefore', 'reason'),
  ]
}

const BYTES_MAX = Number.MAX_SAFE_INTEGER

/** Whether the payloads may exceed this number of bytes. A character has at most three bytes. */
function isFull(events: readonly StoredEvent[], bytes: number): boolean {
  let characters = 0
  for (const { payload } of events) characters += payload?.length ?? 0
  return characters * 3 >= bytes
}
