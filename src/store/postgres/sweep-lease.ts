import { SWEEP_LEASE_MS } from '../../limits.ts'
import type { PgDriver } from './driver/driver.ts'
import { holdSweepSql, letSweepGoSql } from './sql/sweep.ts'

export interface SweepHeld {
  /** The longest `replayFor` that any process has asked for. */
  readonly replayForMs: number
  /** This role may change the tables. */
  readonly owner: boolean
}

/** One sweeper at a time, across all processes. */
export class SweepLease<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string
  readonly #name: string

  constructor(driver: PgDriver<Tx>, schema: string, name: 'records' | 'inbox') {
    this.#driver = driver
    this.#schema = schema
    this.#name = name
  }

  /** Null: another process is sweeping. */
  async hold<T>(replayForMs: number, work: (held: SweepHeld) => Promise<T>): Promise<T | null> {
    const values = [this.#name, SWEEP_LEASE_MS, replayForMs]
    const [row] = await this.#driver.query({ name: '', text: holdSweepSql(this.#schema), values })
    if (!row) return null
    try {
      return await work({ replayForMs: Number(row['replay_ms']), owner: row['owner'] === true })
    } finally {
      await this.#letGo(String(row['holder']))
    }
  }

  /** Releases the lease. A failure does not matter, because the lease lapses by itself. */
  async #letGo(holder: string): Promise<void> {
    const statement = { name: '', text: letSweepGoSql(this.#schema), values: [this.#name, holder] }
    await this.#driver.query(statement).catch(() => {})
  }
}
