import type { Vertices } from './settings.ts'

export type Outcome = 'ran' | 'replayed' | 'conflict' | 'lost' | 'failed' | 'refused'

export interface RequestMade {
  /** When it was sent. */
  readonly at: number
  /** When its answer came, or the customer gave up waiting. */
  readonly endedAt: number
  readonly outcome: Outcome
  /** The HTTP status; undefined if no answer came. */
  readonly status?: number
}

/** The intention of one customer: to be charged once, however many requests that takes. */
export interface Intent {
  readonly causation: string
  readonly round: number
  readonly vertices: Vertices
  readonly amount: number
  readonly madeAt: number
  readonly requests: RequestMade[]
  requestCount: number
  replays: number
  conflicts: number
  answeredAt: number | null
}
