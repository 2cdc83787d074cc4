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
  attachableSql,
  attachSegmentSql,
  copyAcksSql,
  countableSql,
  countSegmentSql,
  detachSegmentSql,
  droppableSql,
  dropSegmentSql,
  forgetSegmentSql,
  keepHeldSql,
  lockTableSql,
  markSegmentSql,
  seeWritersSql,
  sealableSql,
  SEGMENT_LOCK_SQL,
  segmentInSql,
  segmentStatesSql,
  sweepKeptSql,
  sweepLinksSql,
  turnableSql,
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
  /** Set if this role is not the owner. It then neither creates nor drops segments. */
  readonly others: SweepTasks | null
}

interface Segment {
  readonly no: number
  readonly state: number
  readonly events: number
  readonly ageMs: number
  /** The writers of the segment have not been read yet. */
  readonly unseen: boolean
  /** A transaction that wrote when the writers were read has not ended. */
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
 * Turns segments over. A segment is attached, written, and sealed when no transaction can write into it any more. It is
 * counted when every destination has passed it, and dropped after the resend window. If a step is not possible now, the
 * next sweep does it. A server that knows less may be promoted between two steps, so each step checks its condition in
 * its own transaction.
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
      if (segment.state < 4) continue
      const detachable = segmentInSql(this.#schema, 'ack', segment.no, [4, 5])
      await this.#drop('ack', segment, detachable, [copyAcksSql(this.#schema, segment.no)], params, swept)
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
      if (state !== 3 || open) continue
      await this.#define(sealableSql(this.#schema, table, no), [markSegmentSql(this.#schema, table, no, 4)])
    }
    segments = await this.#states(table)
    const written = segments.find(({ state }) => state === 2)
    const next = segments.find(({ state }) => state === 1)
    if (!written || segments.some(({ state }) => state === 3)) return segments
    if (!next && others) {
      if (fullness(written) >= 2 && written.ageMs >= LATE_MS) others.late(`the outbox needs another ${table} segment`)
    } else if (!next) {
      const no = written.no + 1
      const attached = await this.#define(
        attachableSql(this.#schema, table, no),
        attachSegmentSql(this.#schema, table, no),
      )
      if (attached) await this.#query(seeWritersSql(this.#schema, table, no))
    } else if (!next.open && !next.unseen && fullness(written) >= 1) {
      await this.#define(turnableSql(this.#schema, table, next.no), [turnOverSql(this.#schema, table, next.no)])
      await this.#query(seeWritersSql(this.#schema, table, written.no))
    }
    return this.#states(table)
  }

  async #settleEvents(segment: Segment, params: Sweep, swept: SweptOutbox): Promise<void> {
    const { no, state, ageMs } = segment
    let { events } = segment
    if (state === 4) {
      const counted = await this.#counted(segment)
      swept.miscounted.push(...(counted?.miscounted ?? []))
      if (!counted || counted.miscounted.length > 0) return
      events = counted.events
    }
    // A counted segment waits for the end of the resend window.
    if (state < 4 || ageMs < params.resendForMs) return
    const droppable = droppableSql(this.#schema, no, params.resendForMs)
    if (state < 6 && !params.others && !(await this.#define(droppable, sweepLinksSql(this.#schema, no)))) return
    if (!(await this.#drop('event', segment, droppable, [keepHeldSql(this.#schema, no)], params, swept))) return
    swept.events += events
    this.#delayedTo = FIRST_ID
  }

  /**
   * Counts the whole segment once. After a wrong result, it counts again from time to time, until somebody has repaired
   * the data. Null: not every destination has passed the segment.
   */
  async #counted({ no, ageMs }: Segment): Promise<Counted | null> {
    const before = this.#miscounted.get(no)
    if (before && ageMs < before.ageMs + MISCOUNTED_AGAIN_MS) return before
    const counted = await this.#step(countableSql(this.#schema, no), async (connection) => {
      const rows = await run(connection, countSegmentSql(this.#schema, no))
      const miscounted = rows.filter((row) => row['destination'] !== null).map((row) => miscountedOf(no, row))
      const events = Number(rows[0]?.['events'] ?? 0)
      if (miscounted.length === 0) await run(connection, markSegmentSql(this.#schema, 'event', no, 5, events))
      return { ageMs, miscounted, events }
    })
    if (counted && counted.miscounted.length > 0) this.#miscounted.set(no, counted)
    else this.#miscounted.delete(no)
    return counted
  }

  /** Detaches a segment under a short lock. It is dropped when no session can wait for it. */
  async #drop(
    table: SegmentTable,
    { no, state, ageMs }: Segment,
    detachable: string,
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
    const detached = segmentInSql(this.#schema, table, no, [6])
    const drop = [dropSegmentSql(this.#schema, table, no), forgetSegmentSql(this.#schema, table, no)]
    const gone = (state === 6 || (await this.#define(detachable, detach))) && (await this.#define(detached, drop))
    if (gone) swept.segmentsDropped++
    else swept.segmentsBusy++
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

  /** False: not possible now. */
  async #define(condition: string, statements: readonly string[]): Promise<boolean> {
    const done = await this.#step(condition, async (connection) => {
      for (const text of statements) await run(connection, text)
      return true
    })
    return done ?? false
  }

  /**
   * All statements or none. Null: the condition does not hold, another sweeper works, or another session holds a lock.
   */
  async #step<T>(condition: string, work: (connection: PgConnection<Tx>) => Promise<T>): Promise<T | null> {
    const { connection, rows } = await this.#driver.begin({
      name: '',
      text: SEGMENT_LOCK_SQL,
      values: [this.#schema, `${RETENTION_LOCK_TIMEOUT_MS}ms`],
    })
    try {
      // A separate statement sees everything that was committed before the lock was taken.
      const holds =
        rows[0]?.['locked'] === true && (await run(connection, `select ${condition} as holds`))[0]?.['holds'] === true
      if (!holds) {
        await connection.rollback()
        return null
      }
      const result = await work(connection)
      return (await connection.commit()) === 'committed' ? result : null
    } catch (error) {
      await connection.rollback()
      if (BUSY.has(sqlStateOf(error) ?? '')) return null
      throw error
    }
  }

  #query(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    return this.#driver.query({ name: '', text, values })
  }
}

/** lock not available, deadlock, made or removed by another sweeper meanwhile */
const BUSY = new Set(['55P03', '40P01', '42P07', '23505', '42P01', '42P17', '42710'])

function run<Tx>(connection: PgConnection<Tx>, text: string): Promise<readonly Row[]> {
  return connection.query({ name: '', text, values: [] })
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
