import { newUuid } from './uuid.ts'

/** A seam for the simulator: the same seed, the same world. Nothing that must be secret comes from here. */
export interface Random {
  /** A number in [0, 1), for jitter. */
  next(): number
  /** Unique: names a relay, or an event without a key. */
  uuid(): string
}

export const systemRandom: Random = { next: () => Math.random(), uuid: newUuid }
