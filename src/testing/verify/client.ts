import type { SimulatedClient } from '../simulate/client.ts'
import { untilDecided } from '../simulate/client.ts'
import type { Boundaries } from './boundaries.ts'

/** Long enough for a database to notice that a client is dead. The parent ends a process that takes too long. */
const PERSISTENCE = { triesMax: 400, pauseMsMax: 100, between: () => Promise.resolve() }

/** The answer is known, and does not reach the client. */
export const ANSWER = 'answer'

export interface ClientOptions {
  /** The beginning of each key. A retry from another process uses the same name. */
  readonly name: string
  /** Every call is made twice at once, as by a double click. */
  readonly doubled: boolean
  readonly boundaries: Boundaries
}

/** A client whose process may die with the server's: it makes the same calls again, under the same keys. */
export class RetryingClient implements SimulatedClient {
  readonly #options: ClientOptions
  keys = 0

  constructor(options: ClientOptions) {
    this.#options = options
  }

  async retry<T>(call: (key: string) => Promise<T>): Promise<T> {
    const { name, doubled, boundaries } = this.#options
    const key = `${name}-${++this.keys}`
    const calls = Array.from({ length: doubled ? 2 : 1 }, () => untilDecided(() => call(key), PERSISTENCE))
    const [value] = await Promise.all(calls)
    boundaries.end(ANSWER)
    return value as T
  }
}
