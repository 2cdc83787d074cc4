import { sha256Hex } from '../../../platform/sha256.ts'
import type { UserStatement } from '../../store.ts'
import type { PgStatement } from './driver.ts'

/** Prepared names stay on every connection. Texts with inlined values must not fill the server's memory. */
const NAMES_MAX = 64
const COUNTED_MAX = 512

/** A text that was sent this often is worth a name on the server. */
const USES = 5

/** Names for the user's texts that are worth preparing: the server parses and plans them once per connection. */
class StatementNames {
  readonly #names = new Map<string, string>()
  readonly #uses = new Map<string, number>()
  readonly #max: number
  readonly #after: number

  /** `after`: how often a text must be sent before it gets a name. */
  constructor({ max = NAMES_MAX, after = 1 }: { readonly max?: number; readonly after?: number } = {}) {
    this.#max = max
    this.#after = after
  }

  /** '' = not prepared. */
  nameOf(text: string): string {
    return this.#names.get(text) ?? this.#count(text)
  }

  #count(text: string): string {
    if (this.#names.size >= this.#max) return ''
    const uses = (this.#uses.get(text) ?? 0) + 1
    if (uses < this.#after) {
      if (this.#uses.size >= COUNTED_MAX) this.#uses.clear()
      this.#uses.set(text, uses)
      return ''
    }
    this.#uses.delete(text)
    const name = `effectively_once.user.${sha256Hex(text).slice(0, 16)}`
    this.#names.set(text, name)
    return name
  }
}

/**
 * The frequent statements of handlers. A text with `*` is not prepared: it may return other columns after a migration,
 * and the prepared statement would fail once.
 */
export class FrequentStatements {
  readonly #names = new StatementNames({ after: USES })

  /** '' = not prepared. */
  nameOf(text: string): string {
    return text.includes('*') ? '' : this.#names.nameOf(text)
  }
}

/** A batched route sends the same text again and again, from the first request on. */
export class UserStatements {
  readonly #names: StatementNames

  /** Only a driver that prepares again after a table has changed may use names. */
  constructor(driver: { readonly pipelined: boolean }) {
    this.#names = new StatementNames(driver.pipelined ? {} : { max: 0 })
  }

  bind({ sql, values }: UserStatement): PgStatement {
    return { name: this.#names.nameOf(sql), text: sql, values }
  }
}
