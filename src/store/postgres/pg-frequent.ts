import { sha256Hex } from '../../platform/sha256.ts'
import type { PgClient, PgManner } from './pg-client.ts'
import { isPreparedStatementLost, markTransient, sqlStateOf } from './sqlstate.ts'

/** A text that came this often is worth a name on the server. */
const USES = 5
/** Names stay on every connection; what a handler writes into its texts must not fill the server. */
const NAMES_MAX = 64
const COUNTED_MAX = 512

/**
 * The handlers' statements that come again and again: prepared, the server parses and plans them once per connection.
 * What may return other columns tomorrow (`*`) is left as it is: a prepared statement would fail once, after the change.
 */
export class FrequentStatements {
  readonly #names = new Map<string, string>()
  readonly #uses = new Map<string, number>()

  /** '' = not prepared. */
  nameOf(text: string): string {
    const name = this.#names.get(text)
    return name === undefined ? this.#count(text) : name
  }

  #count(text: string): string {
    if (this.#names.size >= NAMES_MAX || text.includes('*')) return ''
    const uses = (this.#uses.get(text) ?? 0) + 1
    if (uses < USES) {
      if (this.#uses.size >= COUNTED_MAX) this.#uses.clear()
      this.#uses.set(text, uses)
      return ''
    }
    this.#uses.delete(text)
    const name = `effectively_once.tx.${sha256Hex(text).slice(0, 16)}`
    this.#names.set(text, name)
    return name
  }

  forget(text: string): void {
    this.#names.set(text, '')
  }
}

/** As pg would run it, under a name. What only the name made fail is worth another run, without it. */
export function queryPrepared(
  client: PgClient,
  manner: PgManner,
  { name, text, values }: { readonly name: string; readonly text: string; readonly values: unknown },
): unknown {
  return new Promise((resolve, reject) => {
    client.query({ name, text, values }, undefined, (error: Error | null, result: unknown) => {
      if (!error) return resolve(result)
      // As pg does for its promises: its own stack ends at the socket.
      Error.captureStackTrace(error)
      const lost = isPreparedStatementLost(error)
      const stale = sqlStateOf(error) === CACHED_PLAN
      if (lost) manner.prepared = false
      if (stale) manner.frequent.forget(text)
      if (lost || stale) markTransient(error)
      reject(error)
    })
  })
}

/** feature_not_supported: also what the server says of a prepared statement whose columns changed. */
const CACHED_PLAN = '0A000'
