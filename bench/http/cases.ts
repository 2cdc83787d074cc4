import type { LoadOrder } from '../http-load.ts'

const KEYS = 1000

export const FRAMEWORKS = ['fastify', 'express', 'hono'] as const
export type Framework = (typeof FRAMEWORKS)[number]

export interface HttpCase {
  readonly keys: LoadOrder['keys']
  /** What it is told against: the bare handler, prepared, with the same event. */
  readonly base: 'bare' | 'bareEvent'
}

const NEW = { keys: 'new', base: 'bare' } as const
const EVENT = { keys: 'new', base: 'bareEvent' } as const

/** Each is a path of the same name, on every framework. By hand is prepared where nothing else is said. */
export const CASES = {
  bare: NEW,
  bareEvent: EVENT,
  bareUnprepared: NEW,
  bareEventUnprepared: EVENT,
  hand: NEW,
  handEvent: EVENT,
  handUnprepared: NEW,
  handEventUnprepared: EVENT,
  handPipelined: NEW,
  handPipelinedEvent: EVENT,
  handPipelinedUnprepared: NEW,
  handPipelinedEventUnprepared: EVENT,
  atomic: NEW,
  atomicEvent: EVENT,
  batched: NEW,
  batchedEvent: EVENT,
  replayDatabase: { keys: { prefix: 'forgotten', count: KEYS }, base: 'bare' },
  replayMemory: { keys: { prefix: 'remembered', count: KEYS }, base: 'bare' },
  /** What the framework alone does: no replay can be cheaper. */
  static: NEW,
} as const satisfies Record<string, HttpCase>

export type CaseName = keyof typeof CASES
export const CASE_NAMES = Object.keys(CASES) as CaseName[]
