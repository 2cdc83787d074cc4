import { ACK_SEGMENT_BYTES, RETENTION_LOCK_TIMEOUT_MS, SEGMENT_MS_MAX, SEGMENTS_PER_WINDOW } from '../../limits.ts'
import type { Miscounted, Row } from '../store.ts'
import type { PgConnection, PgDriver } from './driver.ts'
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
import { sqlStateOf } from './sqlstate.ts'

export interface SweptOutbox {
  events: number
  miscounted: Miscounted[]
  segmentsDropped: number
  /** Could not be dropped because somebody uses them. */
  segmentsBusy: number
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

/**
 * Turns segments over: attached, written, sealed when nobody can write into them any more, counted when every
 * destination has passed them, dropped after the resend window. A step that is not possible now is the next sweep's.
 */
export class PostgresOutboxRetention<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  async sweep(params: { resendForMs: number; limit: number; signal?: AbortSignal | undefined }): Promise<SweptOutbox> {
    const swept: SweptOutbox = { events: 0, miscounted: [], segmentsDropped: 0, segmentsBusy: 0 }
    const everyMs = Math.min(SEGMENT_MS_MAX, params.resendForMs / SEGMENTS_PER_WINDOW)
    for (const segment of await this.#turn('event', ({ ageMs }) => ageMs >= everyMs)) {
      if (params.signal?.aborted) return swept
      await this.#settleEvents(segment, params.resendForMs, swept)
    }
    for (const segment of await this.#turn('ack', ({ bytes }) => bytes >= ACK_SEGMENT_BYTES)) {
      if (params.signal?.aborted) return swept
      if (segment.state >= 4) await this.#drop('ack', segment, [copyAcksSql(this.#schema, segment.no)], swept)
    }
    await this.#query(sweepKeptSql(this.#schema), [params.limit])
    return swept
  }

  /** Goes on with the segments of a table, and answers with what there is then. */
  async #turn(table: SegmentTable, isFull: (written: Segment) => boolean): Promise<Segment[]> {
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
    if (!next) {
      const statements = attachSegmentSql(this.#schema, table, written.no + 1)
      if (await this.#define(statements)) await this.#query(seeWritersSql(this.#schema, table, written.no + 1))
    } else if (!next.open && !next.unseen && isFull(written)) {
      await this.#define([turnOverSql(this.#schema, table, next.no)])
      await this.#query(seeWritersSql(this.#schema, table, written.no))
    }
    return this.#states(table)
  }

  async #settleEvents(segment: Segment, resendForMs: number, swept: SweptOutbox): Promise<void> {
    const { no, state, ageMs } = segment
    if (state < 4 || !(state === 6 || (await this.#passed(no)))) return
    let { events } = segment
    if (state === 4) {
      const rows = await this.#query(countSegmentSql(this.#schema, no))
      const wrong = rows.filter((row) => row['destination'] !== null)
      if (wrong.length > 0) {
        swept.miscounted.push(...wrong.map((row) => miscountedOf(no, row)))
        return
      }
      events = Number(rows[0]?.['events'] ?? 0)
      await this.#query(markSegmentSql(this.#schema, 'event', no, 5, events))
    }
    if (ageMs < resendForMs) return
    if (state < 6) await this.#query(sweepLinksSql(this.#schema, no))
    const dropped = await this.#drop('event', segment, [keepHeldSql(this.#schema, no)], swept)
    if (dropped) swept.events += events
  }

  async #passed(no: number): Promise<boolean> {
    return (await this.#query(passedSql(this.#schema, no)))[0]?.['passed'] === true
  }

  /** Detached under a short lock, then dropped when nobody can be waiting for it. */
  async #drop(
    table: SegmentTable,
    { no, state }: Segment,
    before: readonly string[],
    swept: SweptOutbox,
  ): Promise<boolean> {
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

  /** All or nothing; false when another sweeper is at it, or somebody is in the way. */
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
