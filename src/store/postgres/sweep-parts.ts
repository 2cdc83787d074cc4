import { SWEEP_BLOCKS, SWEEP_ROWS_PER_PART } from '../../limits.ts'
import type { Row } from '../store.ts'
import type { PgDriver } from './driver/driver.ts'
import { duePartsSql, lookIntoPartSql, restPartSql, type PartedTable } from './sql/sweep.ts'

/** The first address of a part, and the one past its end. */
export type Range = readonly [from: string, to: string]

/** Visits the parts of a table in which a row may be due, and notes when to visit each of them again. */
export class SweepParts<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  /** `remove` removes at most `limit` rows of a part, and returns how many. False: there is more. */
  async sweep(
    table: PartedTable,
    limit: number,
    signal: AbortSignal | undefined,
    remove: (range: Range, limit: number) => Promise<number>,
  ): Promise<boolean> {
    const most = Math.ceil(limit / SWEEP_ROWS_PER_PART)
    const parts = await this.#query(duePartsSql(this.#schema, table), [most + 1])
    let left = limit
    for (const no of parts.slice(0, most).map((row) => Number(row['no']))) {
      if (signal?.aborted) return false
      const range: Range = [`(${no * SWEEP_BLOCKS},0)`, `(${(no + 1) * SWEEP_BLOCKS},0)`]
      const [look] = await this.#query(lookIntoPartSql(this.#schema, table), [...range, no])
      if (look?.['due'] !== true) continue
      left -= await remove(range, left)
      // If the limit was reached, the part stays due.
      if (left <= 0) return false
      await this.#query(restPartSql(this.#schema, table), [no])
    }
    return parts.length <= most
  }

  #query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.#driver.query({ name: '', text, values })
  }
}
