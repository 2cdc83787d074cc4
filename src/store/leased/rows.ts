import { onceError } from '../../errors.ts'

/**
 * Fields of text that a store without transactions compares and sets together. The fields of one group change all at
 * once or not at all. Different groups are independent, so a store may keep them on different servers.
 */
export interface Rows {
  /** Reads fields of a group, in the order of their names. `now`: the server's time in milliseconds since 1970. */
  read(group: string, fields: readonly string[]): Promise<RowsRead>
  /** False: a field no longer has the expected value, or the server's time is past `notAfter`. Nothing was written. */
  write(group: string, change: RowsChange): Promise<boolean>
}

export interface RowsRead {
  readonly values: readonly (string | null)[]
  readonly now: number
}

export interface RowsChange {
  /** The values that the change was computed from. Null: the field was absent. */
  readonly expected: ReadonlyMap<string, string | null>
  /** Null: the field is removed. */
  readonly set: ReadonlyMap<string, string | null>
  /** Milliseconds since 1970, by the server's clock. */
  readonly notAfter?: number | undefined
  /** A failover may lose the change, so it waits for no replica. Otherwise an error may follow a write that was made. */
  readonly mayBeLost?: boolean | undefined
}

type ChangeOptions = Pick<RowsChange, 'notAfter' | 'mayBeLost'>

const TRIES_MAX = 200
const PAUSE_MS_MAX = 20
/** How many fields are read at once. */
const WINDOW = 500

/** One attempt to change a group. What it reads must be unchanged when it writes. */
export class Draft {
  readonly #rows: Rows
  readonly #group: string
  readonly #read = new Map<string, string | null>()
  readonly #set = new Map<string, string | null>()
  now = 0

  constructor(rows: Rows, group: string) {
    this.#rows = rows
    this.#group = group
  }

  async texts(fields: readonly string[]): Promise<(string | null)[]> {
    const missing = [...new Set(fields)].filter((field) => !this.#read.has(field))
    if (missing.length > 0 || this.now === 0) {
      for await (const { fields: window, values, now } of windows(this.#rows, this.#group, missing)) {
        window.forEach((field, i) => this.#read.set(field, values[i] ?? null))
        this.now = now
      }
    }
    return fields.map((field) => (this.#set.has(field) ? this.#set.get(field) : this.#read.get(field)) ?? null)
  }

  async all<T>(fields: readonly string[]): Promise<(T | null)[]> {
    return (await this.texts(fields)).map((text) => (text === null ? null : (JSON.parse(text) as T)))
  }

  async get<T>(field: string): Promise<T | null> {
    return (await this.all<T>([field]))[0] ?? null
  }

  /** Null removes the field. */
  put(field: string, value: unknown): void {
    this.#set.set(field, value === null ? null : JSON.stringify(value))
  }

  async written(options: ChangeOptions): Promise<boolean> {
    if (this.#set.size === 0) return true
    return this.#rows.write(this.#group, { expected: this.#read, set: this.#set, ...options })
  }
}

/** Computes a change from what is stored, and computes it again if another process was quicker. */
export async function changing<T>(
  rows: Rows,
  group: string,
  work: (draft: Draft) => Promise<T>,
  options: ChangeOptions = {},
): Promise<T> {
  const { notAfter } = options
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const draft = new Draft(rows, group)
    const made = await work(draft)
    if (notAfter !== undefined && draft.now > notAfter) break
    if (await draft.written(options)) return made
    await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(PAUSE_MS_MAX, tries)))
  }
  throw onceError('ONCE_CONFLICT', { detail: 'The rows of a consumer changed each time they were read' })
}

/** Reads fields without a change to follow. */
export async function reading<T>(rows: Rows, group: string, fields: readonly string[]): Promise<(T | null)[]> {
  if (fields.length === 0) return []
  const found: (T | null)[] = []
  for await (const { values } of windows(rows, group, fields)) {
    for (const text of values) found.push(text === null ? null : (JSON.parse(text) as T))
  }
  return found
}

/** A long read would hold up the commands of others. Reads once if there are no fields, for the time. */
async function* windows(
  rows: Rows,
  group: string,
  all: readonly string[],
): AsyncGenerator<RowsRead & { readonly fields: readonly string[] }> {
  for (let at = 0; at === 0 || at < all.length; at += WINDOW) {
    const fields = all.slice(at, at + WINDOW)
    yield { ...(await rows.read(group, fields)), fields }
  }
}
