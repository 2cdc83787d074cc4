/** The texts of users may be endless. Our own texts stay, because they are used often. */
const STATEMENTS_MAX = 500

/** Prepared statements by their text. The least recently used one is dropped first. */
export class Prepared<S> {
  readonly #statements = new Map<string, S>()
  readonly #prepare: (sql: string) => S

  constructor(prepare: (sql: string) => S) {
    this.#prepare = prepare
  }

  get(sql: string): S {
    const known = this.#statements.get(sql)
    const statement = known ?? this.#prepare(sql)
    if (known !== undefined) this.#statements.delete(sql)
    else if (this.#statements.size >= STATEMENTS_MAX) this.#dropOldest()
    this.#statements.set(sql, statement)
    return statement
  }

  clear(): void {
    this.#statements.clear()
  }

  #dropOldest(): void {
    const [oldest] = this.#statements.keys()
    if (oldest !== undefined) this.#statements.delete(oldest)
  }
}
