/** What a handler of the soak does with its request. The client decides, and knows which answers are right. */
export const KINDS = {
  /** JSON at once. */
  json: [201],
  /** A body of 32 KiB, in pieces. */
  pieces: [200],
  /** Answers, and answers once more. */
  double: [201],
  /** The answer comes from a callback, after the handler has returned. */
  callback: [201, 500],
  /** A refusal, which is stored. */
  refused: [402],
  failing: [503],
  throws: [500],
  /** The answer comes after the deadline. */
  late: [500, 503, 504],
  /** A stream that breaks after its first bytes. */
  broken: [500, 502, 503],
  /** The response is given up. */
  destroyed: [500, 503],
  /** The connection is killed while the handler runs. */
  killed: [201],
} as const satisfies Record<string, readonly number[]>

export type Kind = keyof typeof KINDS
export const KIND_NAMES: readonly Kind[] = Object.keys(KINDS) as Kind[]

/** What each request of the soak says. */
export interface Asked {
  readonly kind: Kind
  /** Every answer carries it. */
  readonly nonce: string
}

export const DEADLINE_MS = 500
/** How much later than the deadline a late answer comes: Node's timers keep no order when its loop was held up. */
export const LATE_MS = 600
export const ADAPTERS = ['express', 'fastify', 'nest', 'koa', 'hono'] as const
export type Adapter = (typeof ADAPTERS)[number]

/** What the server is asked, and what it says. */
export type ToServer = { readonly ask: 'measure' } | { readonly ask: 'end' }
export type FromServer =
  | { readonly say: 'listening'; readonly port: number }
  | {
      readonly say: 'measured'
      readonly heapBytes: number
      readonly uncaught: readonly string[]
      readonly twice: number
    }
