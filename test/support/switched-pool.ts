import pg from 'pg'
import type { PoolLike } from '../../src/store/postgres/pg.ts'

type Called = (error: Error | undefined, client: pg.PoolClient | undefined, done: (release?: unknown) => void) => void

/** One pool to a program, which leads to one database after the other. */
export class SwitchedPool implements PoolLike<pg.PoolClient> {
  readonly #pools = new Map<string, pg.Pool>()
  #url: string

  constructor(url: string) {
    this.#url = url
  }

  switchTo(url: string): void {
    this.#url = url
  }

  connect(): Promise<pg.PoolClient>
  connect(callback: Called): void
  connect(callback?: Called): Promise<pg.PoolClient> | void {
    return callback ? this.#pool.connect(callback) : this.#pool.connect()
  }

  query(text: string, values?: unknown[]): Promise<pg.QueryResult> {
    return this.#pool.query(text, values)
  }

  get totalCount(): number {
    return this.#pool.totalCount
  }

  get idleCount(): number {
    return this.#pool.idleCount
  }

  async end(): Promise<void> {
    for (const pool of this.#pools.values()) await pool.end()
  }

  get #pool(): pg.Pool {
    let pool = this.#pools.get(this.#url)
    if (!pool) {
      pool = new pg.Pool({ connectionString: this.#url, max: 6 })
      pool.on('error', () => {})
      this.#pools.set(this.#url, pool)
    }
    return pool
  }
}
