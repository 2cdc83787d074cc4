import { SWEEP_BLOCKS } from '../../limits.ts'
import type { SweptInbox } from '../inbox.ts'
import type { PgDriver } from './driver.ts'
import { forgetSql, markSql, sweepLettersSql, tableBlocksSql, unrowSql } from './sql/inbox-sweep.ts'

type Table = 'inbox' | 'mark'

/** Walks through the inbox and its marks by address, a part at a time, and goes on there next time. */
export class InboxSweeper<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string
  readonly #next: Record<Table, number> = { inbox: 0, mark: 0 }

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  async sweep(limit: number, signal: AbortSignal | undefined): Promise<SweptInbox> {
    const swept = { marked: 0, rows: 0 }
    const inbox = await this.#walk('inbox', limit, signal, async (range, left) => {
      swept.marked += await this.#count(markSql(this.#schema), [...range, left])
      const rows = await this.#count(unrowSql(this.#schema), [...range, left])
      swept.rows += rows
      return rows
    })
    let marks = 0
    const mark = await this.#walk('mark', limit, signal, async (range, left) => {
      const gone = await this.#count(forgetSql(this.#schema), [...range, left])
      marks += gone
      return gone
    })
    const letters = await this.#count(sweepLettersSql(this.#schema), [limit])
    return { ...swept, marks, letters, finished: inbox && mark && letters < limit }
  }

  async #walk(
    table: Table,
    limit: number,
    signal: AbortSignal | undefined,
    work: (range: readonly [string, string], left: number) => Promise<number>,
  ): Promise<boolean> {
    const [row] = await this.#driver.query({ name: '', text: tableBlocksSql(this.#schema, table), values: [] })
    const blocks = Number(row?.['blocks'] ?? 0)
    let done = 0
    for (let walked = 0; walked < blocks; walked += SWEEP_BLOCKS) {
      if (signal?.aborted) return false
      if (this.#next[table] >= blocks) this.#next[table] = 0
      const from = this.#next[table]
      done += await work([`(${from},0)`, `(${from + SWEEP_BLOCKS},0)`], limit - done)
      // The part is walked again when the limit cut it short.
      if (done >= limit) return false
      this.#next[table] = from + SWEEP_BLOCKS
    }
    return true
  }

  async #count(text: string, values: readonly unknown[]): Promise<number> {
    const [row] = await this.#driver.query({ name: '', text, values })
    return Number(row?.['rows'] ?? 0)
  }
}
