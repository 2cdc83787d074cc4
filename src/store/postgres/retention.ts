import { PARTITIONS_AHEAD_DAYS, PARTITIONS_MAX_DAYS, RETENTION_LOCK_TIMEOUT_MS, SWEEP_BLOCKS } from '../../limits.ts'
import type { Retention, Row, SweepParams, Swept } from '../store.ts'
import type { PgDriver } from './driver.ts'
import { storeError } from './errors.ts'
import { PostgresOutboxRetention } from './outbox-retention.ts'
import { sqlStateOf } from './sqlstate.ts'
import {
  blocksSql,
  createPartitionSql,
  DAYS_SQL,
  dropPartitionSql,
  LOCK_TIMEOUT_SQL,
  partitionsSql,
  suspendLapsedSql,
  sweepRecordsSql,
  sweepStraysSql,
} from './sql/retention.ts'

const DAY_MS = 86_400_000

/** Removes what is past its time, in database time, without an index on the hot path and without stalling anybody. */
export class PostgresRetention<Tx> implements Retention {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string
  readonly #outbox: PostgresOutboxRetention<Tx>
  /** Where the last walk through the record table stopped. */
  #block = 0

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
    this.#outbox = new PostgresOutboxRetention(driver, schema)
  }

  async sweep({ limit, replayForMs, resendForMs, signal }: SweepParams): Promise<Swept> {
    try {
      await this.ensurePartitions(Math.ceil(replayForMs / DAY_MS) + PARTITIONS_AHEAD_DAYS)
      const { records, finished } = await this.#sweepRecords(limit, signal)
      const suspended = Number((await this.#query(suspendLapsedSql(this.#schema), [limit]))[0]?.['suspended'] ?? 0)
      await this.#query(sweepStraysSql(this.#schema), [limit])
      const { partitionsDropped, partitionsBusy } = await this.#dropPartitions(signal)
      const outbox = await this.#outbox.sweep({ resendForMs: resendForMs ?? Infinity, limit, signal })
      return {
        records,
        suspended,
        events: outbox.events,
        miscounted: outbox.miscounted,
        partitionsDropped: partitionsDropped + outbox.segmentsDropped,
        partitionsBusy: partitionsBusy + outbox.segmentsBusy,
        finished,
      }
    } catch (error) {
      throw storeError(error, this.#schema)
    }
  }

  /** Makes the partitions of the coming days. One that cannot be made now is made later: the default one stands in. */
  async ensurePartitions(aheadDays: number): Promise<void> {
    const present = new Set((await this.#query(partitionsSql(this.#schema), [])).map((row) => row['name']))
    const days = await this.#query(DAYS_SQL, [Math.min(aheadDays, PARTITIONS_MAX_DAYS)])
    for (const day of days as unknown as { suffix: string; day: string; next: string }[]) {
      if (!present.has(`answer_${day.suffix}`)) await this.#define(createPartitionSql(this.#schema, day))
    }
  }

  async #sweepRecords(limit: number, signal: AbortSignal | undefined): Promise<{ records: number; finished: boolean }> {
    const blocks = Number((await this.#query(blocksSql(this.#schema), []))[0]?.['blocks'] ?? 0)
    let records = 0
    for (let walked = 0; walked < blocks; walked += SWEEP_BLOCKS) {
      if (signal?.aborted) return { records, finished: false }
      if (this.#block >= blocks) this.#block = 0
      const [row] = await this.#query(sweepRecordsSql(this.#schema), [
        `(${this.#block},0)`,
        `(${this.#block + SWEEP_BLOCKS},0)`,
        limit - records,
      ])
      records += Number(row?.['records'] ?? 0)
      // The range is walked again when the limit cut it short.
      if (records >= limit) return { records, finished: false }
      this.#block += SWEEP_BLOCKS
    }
    return { records, finished: true }
  }

  async #dropPartitions(
    signal: AbortSignal | undefined,
  ): Promise<{ partitionsDropped: number; partitionsBusy: number }> {
    let partitionsDropped = 0
    let partitionsBusy = 0
    for (const row of await this.#query(partitionsSql(this.#schema), [])) {
      if (row['past'] !== true || signal?.aborted) continue
      if (await this.#define(dropPartitionSql(this.#schema, String(row['name'])))) partitionsDropped++
      else partitionsBusy++
    }
    return { partitionsDropped, partitionsBusy }
  }

  /** DDL under a short lock timeout: false when somebody is in the way, or did the same at the same time. */
  async #define(text: string): Promise<boolean> {
    const { connection } = await this.#driver.begin({
      name: '',
      text: LOCK_TIMEOUT_SQL,
      values: [`${RETENTION_LOCK_TIMEOUT_MS}ms`],
    })
    try {
      await connection.query({ name: '', text, values: [] })
      return (await connection.commit()) === 'committed'
    } catch (error) {
      await connection.rollback()
      if (BUSY.has(sqlStateOf(error) ?? '')) return false
      throw error
    }
  }

  #query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.#driver.query({ name: '', text, values })
  }
}

/** lock not available, deadlock, already made by another process, rows of that day already in the default partition */
const BUSY = new Set(['55P03', '40P01', '42P07', '23505', '23514', '42P17', '42710'])
