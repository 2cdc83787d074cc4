import { onceError } from '../../errors.ts'
import { RELAY_SETTLE_MS, SHARDS } from '../../limits.ts'
import { HELD_STATES } from '../outbox.ts'
import type {
  Acked,
  AckParams,
  Beat,
  BeatParams,
  BlockedAggregate,
  Calls,
  Due,
  DueParams,
  EventPlace,
  EventsRead,
  HoldParams,
  LeaseShardsParams,
  Outbox,
  ReadEventsParams,
  ReleaseParams,
  ResendParams,
  Settled,
  SettleHeldParams,
  ShardLease,
  ShardState,
  StoredEvent,
  TryHeldParams,
} from '../outbox.ts'
import type { Row } from '../store.ts'
import { arrayLiteral } from './array-literal.ts'
import type { PgConnection, PgDriver, PgStatement } from './driver.ts'
import { told } from './errors.ts'
import { postgresCalls } from './outbox-calls.ts'
import type { Bind, StatementName } from './statements.ts'

/** The relay on PostgreSQL: every method is one statement, but for what concerns held events. */
export class PostgresOutbox<Tx> implements Outbox {
  readonly calls: Calls | undefined
  readonly #driver: PgDriver<Tx>
  readonly #bind: Bind
  readonly #schema: string
  /** By destination: its relays of this process share one. */
  readonly #lanes = new Map<string, Pick<PgDriver<Tx>, 'query'>>()

  constructor(driver: PgDriver<Tx>, bind: Bind, schema: string) {
    this.#driver = driver
    this.#bind = bind
    this.#schema = schema
    this.calls = postgresCalls(driver, schema)
  }

  async open({ destination }: { readonly destination: string }): Promise<void> {
    await this.#query('openDestination', [destination, SHARDS])
  }

  async beat({ destination, relay, leaseMs, leases }: BeatParams): Promise<Beat> {
    const statement = this.#bind('beat', [destination, relay, leaseMs, ...leaseArrays(leases)])
    const [row] = await told(this.#schema, () => this.#driver.aside(statement))
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
    // After the cursors: what a late acknowledgement of the last owner held is seen at least as far as its cursor.
    const blocked = (await this.#query('blocked', [destination, shards])).map(blockedOf)
    // A late acknowledgement may have held events behind one that was settled since: the first of them would wait for ever.
    const waiting = blocked.filter(({ parked }) => !parked)
    if (waiting.length > 0) {
      const places = [arrayLiteral(waiting.map((of) => of.shard)), arrayLiteral(waiting.map((of) => of.aggregateId))]
      await this.#query('promoteHeld', [destination, ...places])
    }
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

  async read({ destination, from, perShard, limit }: ReadEventsParams): Promise<EventsRead> {
    const rows = await this.#work(destination, 'readEvents', [
      destination,
      arrayLiteral(from.map(({ shard }) => shard)),
      arrayLiteral(from.map(({ cursor }) => cursor)),
      perShard,
      limit,
      arrayLiteral(from.map(({ segment }) => segment)),
    ])
    const [first] = rows
    return {
      events: first?.['seq'] === null ? [] : rows.map(eventOf),
      free: first?.['free'] === true,
      sealed: Number(first?.['sealed']),
    }
  }

  async ack({ destination, acks, hold }: AckParams): Promise<Acked> {
    const [row] = await this.#work(destination, 'ack', [
      destination,
      arrayLiteral(acks.map(({ shard }) => shard)),
      arrayLiteral(acks.map(({ cursor }) => cursor)),
      arrayLiteral(acks.map(({ token }) => token)),
      arrayLiteral(acks.map(({ tryingTo }) => tryingTo)),
      arrayLiteral(acks.map(({ attempt }) => attempt)),
      arrayLiteral(acks.map(({ segment }) => segment)),
      arrayLiteral(acks.map(({ counted }) => counted)),
      ...heldArrays(hold),
    ])
    return { ours: numbersOf(row?.['ours']), parked: placesOf(row?.['parked']) }
  }

  async due({ destination, shards, limit, behind }: DueParams): Promise<Due> {
    const list = arrayLiteral(shards)
    const rows = await this.#query('due', [destination, list, limit, behind])
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
      ...placeArrays(events),
      arrayLiteral(events.map(({ tried }) => tried)),
      arrayLiteral(events.map(({ dueInMs }) => dueInMs)),
    ])
    return numbersOf(row?.['ours'])
  }

  async settleHeld(params: SettleHeldParams): Promise<Settled> {
    const { destination, leases } = params
    return told(this.#schema, async () => {
      const { connection, rows } = await this.#driver.begin(
        this.#bind('fenceShards', [destination, ...leaseArrays(leases), String(RELAY_SETTLE_MS)]),
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

  /** Shard by shard: each is one statement, and none takes long. */
  async resend({ destination, since, until, type, aggregateId }: ResendParams): Promise<number> {
    const [next] = await this.#query('nextResend', [])
    let events = 0
    for (let shard = 0; shard < SHARDS; shard++) {
      const values = [destination, shard, since, until, type, aggregateId, Number(next?.['no'])]
      const [row] = await this.#query('resend', values)
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

  async release({ destination, relay, leases, leaving }: ReleaseParams): Promise<void> {
    await this.#query('releaseShards', [destination, ...leaseArrays(leases), leaving ? relay : null])
  }

  async #settle(
    connection: PgConnection<Tx>,
    { destination, sent, changed, kept, park, touched }: SettleHeldParams,
    ours: ReadonlySet<number>,
  ): Promise<Settled> {
    const own = <T extends { readonly shard: number }>(rows: readonly T[]): T[] => rows.filter((r) => ours.has(r.shard))
    // First, so that its rows are the first ones.
    const statements: PgStatement[] = [this.#bind('changeHeld', [destination, ...heldArrays(own(changed))])]
    if (sent.length > 0) statements.push(this.#bind('deleteHeld', [destination, ...placeArrays(own(sent))]))
    const counts = arrayLiteral(own(kept).map(({ tried }) => tried))
    if (kept.length > 0) statements.push(this.#bind('keepHeld', [destination, ...placeArrays(own(kept)), counts]))
    const aggregatesOf = (rows: readonly AggregatePlace[]): [string, string] => [
      arrayLiteral(own(rows).map(({ shard }) => shard)),
      arrayLiteral(own(rows).map(({ aggregateId }) => aggregateId)),
    ]
    if (park.length > 0) statements.push(this.#bind('parkHeld', [destination, ...aggregatesOf(park)]))
    const again = [destination, ...aggregatesOf(touched)]
    statements.push(this.#bind('promoteHeld', again), this.#bind('stillBlocked', again))
    const outcome = await connection.pipeline(statements)
    if (outcome.kind === 'failed') throw outcome.error
    const parked = (outcome.rows[0] ?? []).filter((row) => row['parked'] === true)
    return {
      ours: [...ours],
      parked: parked.map((row) => ({ shard: Number(row['shard']), seq: Number(row['seq']) })),
      blocked: (outcome.rows.at(-1) ?? []).map(blockedOf),
    }
  }

  /** The relay's hot path, beside whatever else the pool is busy with. */
  #work(destination: string, name: StatementName, values: readonly unknown[]): Promise<readonly Row[]> {
    let lane = this.#lanes.get(destination)
    if (!lane) {
      lane = this.#driver.lane?.() ?? this.#driver
      this.#lanes.set(destination, lane)
    }
    const { query } = lane
    return told(this.#schema, () => query.call(lane, this.#bind(name, values)))
  }

  #query(name: StatementName, values: readonly unknown[]): Promise<readonly Row[]> {
    return told(this.#schema, () => this.#driver.query(this.#bind(name, values)))
  }
}

function leaseArrays(leases: readonly ShardLease[]): [string, string] {
  return [arrayLiteral(leases.map(({ shard }) => shard)), arrayLiteral(leases.map(({ token }) => token))]
}

type AggregatePlace = Omit<BlockedAggregate, 'parked'>

function placeArrays(places: readonly EventPlace[]): [string, string] {
  return [arrayLiteral(places.map(({ shard }) => shard)), arrayLiteral(places.map(({ seq }) => seq))]
}

function heldArrays(rows: readonly HoldParams[]): string[] {
  return [
    arrayLiteral(rows.map(({ shard }) => shard)),
    arrayLiteral(rows.map(({ seq }) => seq)),
    arrayLiteral(rows.map(({ aggregateId }) => aggregateId)),
    arrayLiteral(rows.map(({ state }) => HELD_STATES.indexOf(state))),
    arrayLiteral(rows.map(({ attempts }) => attempts)),
    arrayLiteral(rows.map(({ dueInMs }) => dueInMs)),
    arrayLiteral(rows.map(({ notBefore }) => notBefore)),
    arrayLiteral(rows.map(({ reason }) => reason)),
  ]
}

function eventOf(row: Row): StoredEvent {
  return {
    shard: row['shard'] as number,
    seq: row['seq'] as number,
    segment: row['segment'] as number,
    id: row['id'] as string,
    aggregateType: row['aggregatetype'] as string,
    aggregateId: row['aggregateid'] as string,
    type: row['type'] as string,
    payload: row['payload'] as string | null,
    headers: row['headers'] as string | null,
    at: row['at'] as number,
  }
}

function blockedOf(row: Row): BlockedAggregate {
  return {
    shard: Number(row['shard']),
    aggregateId: String(row['aggregateid']),
    parked: row['parked'] === true,
  }
}

function byShard(rows: readonly Row[]): Map<number, Row> {
  return new Map(rows.map((row) => [Number(row['shard']), row]))
}

function numbersOf(list: unknown): number[] {
  return typeof list === 'string' && list !== '' ? list.split(',').map(Number) : []
}

function placesOf(list: unknown): EventPlace[] {
  if (typeof list !== 'string' || list === '') return []
  return list.split(',').map((place) => {
    const [shard, seq] = place.split(' ').map(Number) as [number, number]
    return { shard, seq }
  })
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}
