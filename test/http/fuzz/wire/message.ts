/** One final answer, as it was read. */
export interface Message {
  readonly status: number
  readonly reason: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Buffer
  /** Informational answers before it. */
  readonly informational: readonly number[]
  /** It ends where the connection does. */
  readonly untilClose: boolean
}

/** What came back on one connection. */
export interface Heard {
  /** In the order of the requests; null: none, or not a whole one. */
  readonly messages: readonly (Message | null)[]
  /** What is no HTTP, or more than was asked for. */
  readonly malformed: string | null
  /** Why there is no more. */
  readonly ended: 'answered' | 'closed' | 'impatient'
}

/** One request. */
export interface Ask {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
