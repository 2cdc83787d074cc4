import { newUuid } from './uuid.ts'

/** Random numbers. The simulator replaces this interface: the same seed makes the same run. Not for secrets. */
export interface Random {
  /** A number in [0, 1), for jitter. */
  next(): number
  /** A unique id, for a relay or for an event without a key. */
  uuid(): string
}

export const systemRandom: Random = { next: () => Math.random(), uuid: newUuid }
