import {
  ACK_SEGMENT_BYTES,
  MISCOUNTED_AGAIN_MS,
  OWNER_LATE_DAYS,
  RETENTION_LOCK_TIMEOUT_MS,
  SEGMENT_MS_MAX,
  SEGMENTS_PER_WINDOW,
} from '../../limits.ts'
import type { Miscounted, Row } from '../store.ts'
import type { PgConnection, PgDriver } from './driver/driver.ts'
import {
  attachSegmentSql,
  copyAcksSql,
  countSegmentSql,
  detachSegmentSql,
  dropSegmentSql,
  forgetSegmentSql,
  keepHeldSql,
  lockTableSql,
  markSegmentSql,
  passedSql,
  seeWritersSql,
  SEGMENT_LOCK_SQL,
  segmentStatesSql,
  sweepKeptSql,
  sweepLinksSql,
  turnOverSql,
  type SegmentTable,
} from './sql/outbox-retention.ts'
import { sweepDelayedSql } from './sql/outbox-delayed.ts'
import { sqlStateOf } from './driver/sqlstate.ts'
import type { SweepTasks } from './sweep-tasks.ts'

export interface SweptOutbox {
  events: number
  miscounted: Miscounted[]
  segmentsDropped: number
  /** Segments that are in use and could not be dropped. */
  segmentsBusy: number
}

export const NO_EVENTS: Readonly<SweptOutbox> = { events: 0, miscounted: [], segmentsDropped: 0, segmentsBusy: 0 }

const LATE_MS = OWNER_LATE_DAYS * 86_400_000

interface Sweep {
  readonly resendForMs: number
  readonly limit: number
  readonly signal?: AbortSignal | undefined
  /** This role is not the owner: it neither makes segments nor drops them. */
  readonly others: SweepTasks | null
}

interface Segment {
  readonly no: number
  readonly state: number
  readonly events: number
  readonly ageMs: number
  /** Who writes was not looked at yet. */
  readonly unseen: boolean
  /** Of those who wrote when it was looked at, somebody has not ended. */
  readonly open: boolean
  readonly bytes: number
}

interface Counted {
  /** How old the segment was. */
  readonly ageMs: number
  readonly events: number
  readonly miscounted: readonly Miscounted[]
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/**
 * Turns segments over: attached, written, sealed when nobody can write into them any more, counted when every
 * destination has passed them, dropped after the resend window. A step that is not possible now is the next sweep's.
 */
export class PostgresOutboxRetention<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string
  readonly #miscounted = new Map<number, Counted>()
  /** The sweep has passed the rows of delayed events up to this id. Null: it has passed all of them. */
  #delayedTo: string | null = null

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  async sweep(params: Sweep): Promise<SweptOutbox> {
    const swept: SweptOutbox = { ...NO_EVENTS, miscounted: [] }
    const everyMs = Math.min(SEGMENT_MS_MAX, params.resendForMs / SEGMENTS_PER_WINDOW)
    for (const segment of await this.#turn('event', ({ ageMs }) => ageMs / everyMs, params.others)) {
      if (params.signal?.aborted) return swept
      await this.#settleEvents(segment, params, swept)
    }
    for (const segment of await this.#turn('ack', ({ bytes }) => bytes / ACK_SEGMENT_BYTES, params.others)) {
      if (params.signal?.aborted) return swept
      if (segment.state >= 4) await this.#drop('ack', segment, [copyAcksSql(this.#schema, segment.no)], params, swept)
    }
    await this.#query(sweepKeptSql(this.#schema), [params.limit])
    await this.#sweepDelayed(params)
    return swept
  }

  /** After a segment of events was dropped: sweeps all rows, in parts. The next sweep goes on where this one is cut off. */
  async #sweepDelayed({ limit, signal }: Sweep): Promise<void> {
    while (this.#delayedTo !== null) {
      if (signal?.aborted) return
      const [row] = await this.#query(sweepDelayedSql(this.#schema), [limit, this.#delayedTo])
      this.#delayedTo = row ? String(row['last']) : null
    }
  }

  /** Advances the segments of a table, and returns their new state. */
  async #turn(
    table: SegmentTable,
    fullness: (written: Segment) => number,
    others: SweepTasks | null,
  ): Promise<Segment[]> {
    for (const { no } of (await this.#states(table)).filter(({ unseen }) => unseen)) {
      await this.#query(seeWritersSql(this.#schema, table, no))
    }
    let segments = await this.#states(table)
    for (const { no, state, open } of segments) {
      if (state === 3 && !open) await this.#query(markSegmentSql(this.#schema, table, no, 4))
    }
    segments = await this.#states(table)
    const written = segments.find(({ state }) => state === 2)
    const next = segments.find(({ state }) => state === 1)
    if (!written || segments.some(({ state }) => state === 3)) return segments
    if (!next && others) {
      if (fullness(written) >= 2 && written.ageMs >= LATE_MS) others.late(`the outbox needs another ${table} segment`)
    } else if (!next) {
      const statements = attachSegmentSql(this.#schema, table, written.no + 1)
      if (await this.#define(statements)) await this.#query(seeWritersSql(this.#schema, table, written.no + 1))
    } else if (!next.open && !next.unseen && fullness(written) >= 1) {
      await this.#define([turnOverSql(this.#schema, table, next.no)])
      await this.#query(seeWritersSql(this.#schema, table, written.no))
    }
    return this.#states(table)
  }

  async #settleEvents(segment: Segment, params: Sweep, swept: SweptOutbox): Promise<void> {
    const { no, state, ageMs } = segment
    // A counted one waits for its time.
    if (state < 4 || (state === 5 && ageMs < params.resendForMs)) return
    if (state !== 6 && !(await this.#passed(no))) return
    let { events } = segment
    if (state === 4) {
      const counted = await this.#counted(segment)
      swept.miscounted.push(...counted.miscounted)
      if (counted.miscounted.length > 0) return
      events = counted.events
      await this.#query(markSegmentSql(this.#schema, 'event', no, 5, events))
    }
    if (ageMs < params.resendForMs) return
    if (state < 6) for (const text of sweepLinksSql(this.#schema, no)) await this.#query(text)
    const dropped = await this.#drop('event', segment, [keepHeldSql(this.#schema, no)], params, swept)
    if (!dropped) return
    swept.events += events
    this.#delayedTo = FIRST_ID
  }

  /** Counts the whole segment: once, and now and then where the result was wrong, until somebody has mended it. */
  async #counted({ no, ageMs }: Segment): Promise<Counted> {
    const before = this.#miscounted.get(no)
    if (before && ageMs < before.ageMs + MISCOUNTED_AGAIN_MS) return before
    const rows = await this.#query(countSegmentSql(this.#schema, no))
    const miscounted = rows.filter((row) => row['destination'] !== null).map((row) => miscountedOf(no, row))
    const counted = { ageMs, miscounted, events: Number(rows[0]?.['events'] ?? 0) }
    if (miscounted.length > 0) this.#miscounted.set(no, counted)
    else this.#miscounted.delete(no)
    return counted
  }

  async #passed(no: number): Promise<boolean> {
    return (await this.#query(passedSql(this.#schema, no)))[0]?.['passed'] === true
  }

  /** Detaches a segment under a short lock. It is dropped when no session can wait for it. */
  async #drop(
    table: SegmentTable,
    { no, state, ageMs }: Segment,
    before: readonly string[],
    { others, resendForMs }: Sweep,
    swept: SweptOutbox,
  ): Promise<boolean> {
    if (others) {
      const keptForMs = table === 'event' ? resendForMs : 0
      if (ageMs >= keptForMs + LATE_MS) others.late(`the ${table} segment ${no} of the outbox is past its time`)
      return false
    }
    const detach = [
      lockTableSql(this.#schema, table),
      ...before,
      detachSegmentSql(this.#schema, table, no),
      markSegmentSql(this.#schema, table, no, 6),
    ]
    const gone =
      (state === 6 || (await this.#define(detach))) && (await this.#define([dropSegmentSql(this.#schema, table, no)]))
    if (gone) {
      await this.#query(forgetSegmentSql(this.#schema, table, no))
      swept.segmentsDropped++
    } else swept.segmentsBusy++
    return gone
  }

  async #states(table: SegmentTable): Promise<Segment[]> {
    const rows = await this.#query(segmentStatesSql(this.#schema, table))
    return rows.map((row) => ({
      no: Number(row['no']),
      state: Number(row['state']),
      events: Number(row['events']),
      ageMs: Number(row['age_ms']),
      unseen: row['unseen'] === true,
      open: row['open'] === true,
      bytes: Number(row['bytes']),
    }))
  }

  /** Runs everything or nothing. False: another sweeper does it, or another session holds a lock. */
  async #define(statements: readonly string[]): Promise<boolean> {
    const { connection, rows } = await this.#driver.begin({
      name: '',
      text: SEGMENT_LOCK_SQL,
      values: [this.#schema, `${RETENTION_LOCK_TIMEOUT_MS}ms`],
    })
    try {
      if (rows[0]?.['locked'] !== true) {
        await connection.rollback()
        return false
      }
      for (const text of statements) await run(connection, text)
      return (await connection.commit()) === 'committed'
    } catch (error) {
      await connection.rollback()
      if (BUSY.has(sqlStateOf(error) ?? '')) return false
      throw error
    }
  }

  #query(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    return this.#driver.query({ name: '', text, values })
  }
}

/** lock not available, deadlock, made or removed by another sweeper meanwhile */
const BUSY = new Set(['55P03', '40P01', '42P07', '23505', '42P01', '42P17', '42710'])

async function run<Tx>(connection: PgConnection<Tx>, text: string): Promise<void> {
  await connection.query({ name: '', text, values: [] })
}

function miscountedOf(segment: number, row: Row): Miscounted {
  return {
    destination: String(row['destination']),
    segment,
    shard: Number(row['shard']),
    stored: Number(row['stored']),
    acknowledged: Number(row['acknowledged']),
  }
}
