import type {
  DeadLetters,
  LetterCounts,
  LetterFilter,
  LetterReason,
  LetterState,
  ListLettersParams,
  StoredLetter,
} from '../dead-letters.ts'
import { LETTER_STATES } from '../dead-letters.ts'
import { countsOf, groupOf } from '../letter-counts.ts'
import type { Row } from '../store.ts'
import { arrayLiteral } from './array-literal.ts'
import type { PgDriver } from './driver/driver.ts'
import { storeError } from './errors.ts'
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

  async #query(name: InboxStatementName, values: readonly unknown[]): Promise<readonly Row[]> {
    try {
      return await this.#driver.query(this.#bind(name, values))
    } catch (error) {
      throw storeError(error, this.#schema)
    }
  }
}

export function filterValues(filter: LetterFilter): (string | number | null)[] {
  const { consumer, source, type, aggregate, tenant, fingerprint, reason, states, ids, from, to, namespace } = filter
  return [
    ...[consumer, source, type, aggregate, tenant, fingerprint, reason].map((value) => value ?? null),
    states ? arrayLiteral(states.map((state) => LETTER_STATES.indexOf(state))) : null,
    ids ? arrayLiteral(ids) : null,
    from ?? null,
    to ?? null,
    namespace === undefined ? null : String(namespace),
  ]
}

export function letterOf(row: Row): StoredLetter {
  return {
    id: String(row['id']),
    seq: Number(row['seq']),
    consumer: String(row['consumer']),
    source: String(row['source']),
    message: String(row['message']),
    type: String(row['type']),
    aggregate: row['aggregate'] as string | null,
    previous: row['previous'] as string | null,
    tenant: row['tenant'] as string | null,
    state: LETTER_STATES[Number(row['state'])] as LetterState,
    reason: row['reason'] as LetterReason,
    error: row['error'] as string | null,
    fingerprint: String(row['fingerprint']),
    causes: String(row['causes']),
    body: String(row['body']),
    shown: row['shown'] as string | null,
    headers: String(row['headers']),
    traceparent: row['traceparent'] as string | null,
    attempts: Number(row['attempts']),
    timeline: String(row['timeline']),
    parkedAt: Number(row['parked_at']),
    settledAt: row['settled_at'] === null ? null : Number(row['settled_at']),
    blocks: Number(row['blocks']),
  }
}
