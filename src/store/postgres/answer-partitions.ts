import { OWNER_LATE_DAYS, PARTITIONS_AHEAD_DAYS, PARTITIONS_MAX_DAYS, RETENTION_LOCK_TIMEOUT_MS } from '../../limits.ts'
import type { Row } from '../store.ts'
import type { PgDriver } from './driver/driver.ts'
import { isOwnerSql } from './sql/sweep.ts'
import {
  attachPartitionSql,
  dropPartitionSql,
  LOCK_TIMEOUT_SQL,
  missingDaysSql,
  pastPartitionsSql,
  sweepStraysSql,
  type Day,
} from './sql/retention.ts'
import { sqlStateOf } from './driver/sqlstate.ts'
import type { SweepTasks } from './sweep-tasks.ts'

const DAY_MS = 86_400_000

/**
 * Partitions of answers by the day they expire. A day gets no partition if the default partition already has answers of
 * that day. Such answers are removed row by row when they expire.
 */
export class AnswerPartitions<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  /** Creates the days that the first answers need, at the start. */
  async prepare(): Promise<void> {
    const [row] = await this.#query(`select ${isOwnerSql(this.#schema)} as owner`, [])
    if (row?.['owner'] === true) await this.make(DAY_MS, null)
  }

  /**
   * Creates the partitions of the coming days: up to the last day on which an answer may expire, and some ahead. If a
   * partition cannot be created now, the default partition takes its answers. `others`: this role is not the owner.
   */
  async make(replayForMs: number, others: SweepTasks | null): Promise<void> {
    const needed = Math.min(Math.ceil(replayForMs / DAY_MS), PARTITIONS_MAX_DAYS)
    const ahead = Math.min(needed + PARTITIONS_AHEAD_DAYS, PARTITIONS_MAX_DAYS)
    const days = (await this.#query(missingDaysSql(this.#schema), [ahead, needed])) as unknown as MissingDay[]
    const late = days.filter(({ free, near }) => free && near)
    if (!others) for (const day of days) if (day.free) await this.#define(attachPartitionSql(this.#schema, day))
    if (others && late.length > 0) {
      others.late(`there is no partition for the answers of ${late.map(({ day }) => day).join(', ')}`)
    }
  }

  async drop(
    others: SweepTasks | null,
    signal: AbortSignal | undefined,
  ): Promise<{ partitionsDropped: number; partitionsBusy: number }> {
    let partitionsDropped = 0
    let partitionsBusy = 0
    const past = await this.#query(pastPartitionsSql(this.#schema), [])
    const late = past.filter((row) => Number(row['days']) > OWNER_LATE_DAYS)
    if (others && late.length > 0) others.late(`${late.length} partitions of answers are past their day`)
    if (!others) {
      for (const row of past) {
        if (signal?.aborted) break
        if (await this.#define([dropPartitionSql(this.#schema, String(row['name']))])) partitionsDropped++
        else partitionsBusy++
      }
    }
    return { partitionsDropped, partitionsBusy }
  }

  /** Removes expired answers from the default partition. False: there may be more. */
  async removeStrays(limit: number): Promise<boolean> {
    const [row] = await this.#query(sweepStraysSql(this.#schema), [limit])
    return Number(row?.['strays'] ?? 0) < limit
  }

  /** Runs DDL with a short lock timeout. False: another session held a lock, or did the same at the same time. */
  async #define(statements: readonly string[]): Promise<boolean> {
    const { connection } = await this.#driver.begin({
      name: '',
      text: LOCK_TIMEOUT_SQL,
      values: [`${RETENTION_LOCK_TIMEOUT_MS}ms`],
    })
    try {
      for (const text of statements) await connection.query({ name: '', text, values: [] })
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

interface MissingDay extends Day {
  /** The default partition has no answer of this day, and is small enough to be scanned. */
  readonly free: boolean
  /** An answer that is written today may expire on this day. */
  readonly near: boolean
}

/** lock not available, deadlock, already made by another process, rows of that day already in the default partition */
const BUSY = new Set(['55P03', '40P01', '42P07', '23505', '23514', '42P17', '42710'])
