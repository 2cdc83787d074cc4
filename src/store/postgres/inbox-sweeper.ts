import type { SweptInbox } from '../inbox.ts'
import type { PgDriver } from './driver/driver.ts'
import { forgetSql, markSql, sweepLettersSql, unrowSql } from './sql/inbox-sweep.ts'
import { SweepLease } from './sweep-lease.ts'
import { SweepParts } from './sweep-parts.ts'

/** Removes due rows of the inbox and its marks, and settled dead letters. */
export class InboxSweeper<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string
  readonly #lease: SweepLease<Tx>
  readonly #parts: SweepParts<Tx>

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
    this.#lease = new SweepLease(driver, schema, 'inbox')
    this.#parts = new SweepParts(driver, schema)
  }

  async sweep(limit: number, signal: AbortSignal | undefined): Promise<SweptInbox> {
    return (await this.#lease.hold(0, () => this.#sweep(limit, signal))) ?? ELSEWHERE
  }

  async #sweep(limit: number, signal: AbortSignal | undefined): Promise<SweptInbox> {
    const swept = { marked: 0, rows: 0, marks: 0 }
    const inbox = await this.#parts.sweep('inbox', limit, signal, async (range, left) => {
      const marked = await this.#count(markSql(this.#schema), [...range, left])
      const rows = await this.#count(unrowSql(this.#schema), [...range, left])
      swept.marked += marked
      swept.rows += rows
      return Math.max(marked, rows)
    })
    const mark = await this.#parts.sweep('mark', limit, signal, async (range, left) => {
      const gone = await this.#count(forgetSql(this.#schema), [...range, left])
      swept.marks += gone
      return gone
    })
    const letters = await this.#count(sweepLettersSql(this.#schema), [limit])
    return { ...swept, letters, finished: inbox && mark && letters < limit }
  }

  async #count(text: string, values: readonly unknown[]): Promise<number> {
    const [row] = await this.#driver.query({ name: '', text, values })
    return Number(row?.['rows'] ?? 0)
  }
}

/** Another process is sweeping. */
const ELSEWHERE: SweptInbox = { marked: 0, rows: 0, marks: 0, letters: 0, finished: true }
