import { sha256Hex } from '../../platform/sha256.ts'
import type { UserStatement } from '../store.ts'
import type { PgStatement } from './driver.ts'

const NAMES_MAX = 64

/**
 * A batched route sends the same text again and again: prepared, the server parses and plans it once per connection.
 * Bounded, because a route may also write its values into the text, and every name stays on the server.
 */
export class UserStatements {
  readonly #names = new Map<string, string>()
  readonly #max: number

  /** Only a driver that prepares anew after a table has changed may give names. */
  constructor(driver: { readonly pipelined: boolean }) {
    this.#max = driver.pipelined ? NAMES_MAX : 0
  }

  bind({ sql, values }: UserStatement): PgStatement {
    return { name: this.#name(sql), text: sql, values }
  }

  #name(text: string): string {
    const known = this.#names.get(text)
    if (known !== undefined) return known
    if (this.#names.size >= this.#max) return ''
    const name = `effectively_once.user.${sha256Hex(text).slice(0, 16)}`
    this.#names.set(text, name)
    return name
  }
}
