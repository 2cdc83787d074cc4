import type { DeadLetters, LetterCounts, LetterFilter, ListLettersParams, StoredLetter } from '../dead-letters.ts'
import { countsOf } from '../letter-counts.ts'
import { groupOf, letterFilterValues, letterOf } from '../sql/letter-rows.ts'
import type { Row } from '../store.ts'
import { arrayLiteral } from './array-literal.ts'
import type { PgDriver } from './driver/driver.ts'
import { told } from './errors.ts'
import type { InboxBind, InboxStatementName } from './inbox-statements.ts'

export class PostgresLetters<Tx> implements DeadLetters {
  readonly #driver: PgDriver<Tx>
  readonly #bind: InboxBind
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, bind: InboxBind, schema: string) {
    this.#driver = driver
    this.#bind = bind
    this.#schema = schema
  }

  async list({ filter, limit, after = 0, blocks = true }: ListLettersParams): Promise<readonly StoredLetter[]> {
    const values = [...filterValues(filter), after, limit]
    return (await this.#query(blocks ? 'letterList' : 'letterRead', values)).map(letterOf)
  }

  async get({ id }: { readonly id: string }): Promise<StoredLetter | null> {
    return (await this.list({ filter: { ids: [id] }, limit: 1 }))[0] ?? null
  }

  async count({ filter }: { readonly filter: LetterFilter }): Promise<LetterCounts> {
    return countsOf((await this.#query('letterCount', filterValues(filter))).map(groupOf))
  }

  async discard({ filter, limit }: { readonly filter: LetterFilter; readonly limit: number }): Promise<number> {
    return Number((await this.#query('letterDiscard', [...filterValues(filter), limit]))[0]?.['discarded'])
  }

  #query(name: InboxStatementName, values: readonly unknown[]): Promise<readonly Row[]> {
    return told(this.#schema, () => this.#driver.query(this.#bind(name, values)))
  }
}

export function filterValues(filter: LetterFilter): (string | number | null)[] {
  return letterFilterValues(filter, arrayLiteral)
}
