import { onceError } from '../errors.ts'
import { isName } from '../platform/storable.ts'
import { GROUP_MAX, KEY_BYTES_MAX } from './limits.ts'
import type { Side } from './types.ts'

/** Reads one side in order, one key at a time. Only the entries of one key are in memory. */
export class OrderedSide<T> {
  readonly #name: string
  readonly #entries: AsyncIterator<T> | Iterator<T>
  readonly #keyOf: (entry: T) => string
  readonly #after: string | null
  #next: { readonly key: string; readonly entry: T } | null | undefined
  #last: string | null = null

  constructor(name: 'ours' | 'theirs', side: Side<T>, keyOf: (entry: T) => string, after: string | null) {
    this.#name = name
    this.#keyOf = keyOf
    this.#after = after
    const entries = side({ after }) as Partial<AsyncIterable<T> & Iterable<T>> | null | undefined
    const made = entries?.[Symbol.asyncIterator]?.() ?? entries?.[Symbol.iterator]?.()
    if (!made) throw this.#refused('must return an iterable, or an async iterable')
    this.#entries = made
  }

  /** The key of the next entry. Null: there is none. */
  async key(): Promise<string | null> {
    return (await this.#peek())?.key ?? null
  }

  /** The entries with this key, which may be none. */
  async take(key: string): Promise<T[]> {
    const group: T[] = []
    for (let next = await this.#peek(); next?.key === key; next = await this.#peek()) {
      if (group.length === GROUP_MAX)
        throw this.#refused(`has more than ${GROUP_MAX} entries with the key '${shown(key)}'`)
      group.push(next.entry)
      this.#next = undefined
    }
    return group
  }

  async close(): Promise<void> {
    await this.#entries.return?.()
  }

  async #peek(): Promise<{ readonly key: string; readonly entry: T } | null> {
    while (this.#next === undefined) {
      const { done, value } = await this.#entries.next()
      this.#next = done ? null : this.#checked(value)
    }
    return this.#next
  }

  /** Undefined: the entry was compared before. */
  #checked(entry: T): { readonly key: string; readonly entry: T } | undefined {
    const key = this.#keyOf(entry)
    if (!isName(key, KEY_BYTES_MAX)) throw this.#refused(`has an entry without a key of 1 to ${KEY_BYTES_MAX} bytes`)
    if (this.#last !== null && key < this.#last)
      throw this.#refused(`is not ordered by key: '${shown(key)}' came after '${shown(this.#last)}'`)
    this.#last = key
    return this.#after !== null && key <= this.#after ? undefined : { key, entry }
  }

  #refused(detail: string): Error {
    return onceError('ONCE_SIDE_INVALID', { detail: `${this.#name} ${detail}` })
  }
}

function shown(key: string): string {
  return key.length > 60 ? `${key.slice(0, 60)}…` : key
}
