import { onceError } from '../errors.ts'
import { sleep, type Clock } from '../platform/clock.ts'
import { isName } from '../platform/storable.ts'
import { GROUP_MAX, KEY_BYTES_MAX, SIDE_CLOSE_MS_MAX, SIDE_MS_MAX } from './limits.ts'
import { Paused } from './paused.ts'
import type { Side } from './types.ts'

interface How<T> {
  readonly keyOf: (entry: T) => string
  readonly after: string | null
  readonly clock: Clock
  readonly signal: AbortSignal | undefined
}

/** Reads one side in order, one key at a time. Only the entries of one key are in memory. */
export class OrderedSide<T> {
  readonly #name: string
  readonly #entries: AsyncIterator<T> | Iterator<T>
  readonly #how: How<T>
  #next: { readonly key: string; readonly entry: T } | null | undefined
  #last: string | null = null

  constructor(name: 'ours' | 'theirs', side: Side<T>, how: How<T>) {
    this.#name = name
    this.#how = how
    const entries = side({ after: how.after }) as Partial<AsyncIterable<T> & Iterable<T>> | null | undefined
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

  /** A side that hangs is left behind. */
  async close(): Promise<void> {
    const { clock } = this.#how
    const closed = new AbortController()
    const closing = async (): Promise<void> => {
      await this.#entries.return?.()
      closed.abort()
    }
    await Promise.race([closing(), sleep(clock, SIDE_CLOSE_MS_MAX, closed.signal)])
  }

  async #peek(): Promise<{ readonly key: string; readonly entry: T } | null> {
    while (this.#next === undefined) {
      const { done, value } = await this.#read()
      this.#next = done ? null : this.#checked(value)
    }
    return this.#next
  }

  async #read(): Promise<IteratorResult<T, unknown>> {
    const { clock, signal } = this.#how
    if (signal?.aborted) throw new Paused('stopped')
    const over = new AbortController()
    const stop = (): void => over.abort()
    signal?.addEventListener('abort', stop)
    try {
      const read = await Promise.race([this.#entries.next(), sleep(clock, SIDE_MS_MAX, over.signal)])
      if (read) return read
      throw signal?.aborted ? new Paused('stopped') : this.#refused(`gave no entry for ${SIDE_MS_MAX} ms`)
    } finally {
      stop()
      signal?.removeEventListener('abort', stop)
    }
  }

  /** Undefined: the entry was compared before. */
  #checked(entry: T): { readonly key: string; readonly entry: T } | undefined {
    const key = this.#how.keyOf(entry)
    if (!isName(key, KEY_BYTES_MAX)) throw this.#refused(`has an entry without a key of 1 to ${KEY_BYTES_MAX} bytes`)
    if (this.#last !== null && key < this.#last)
      throw this.#refused(`is not ordered by key: '${shown(key)}' came after '${shown(this.#last)}'`)
    this.#last = key
    const { after } = this.#how
    return after !== null && key <= after ? undefined : { key, entry }
  }

  #refused(detail: string): Error {
    return onceError('ONCE_SIDE_INVALID', { detail: `${this.#name} ${detail}` })
  }
}

function shown(key: string): string {
  return key.length > 60 ? `${key.slice(0, 60)}…` : key
}
