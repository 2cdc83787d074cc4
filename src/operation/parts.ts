import { decide } from '../lifecycle/decide.ts'
import { systemClock, type Clock } from '../platform/clock.ts'
import { systemRandom, type Random } from '../platform/random.ts'

/** Everything that is neither the user's options nor the store: replaced by the simulator, never by users. */
export interface Parts {
  readonly clock: Clock
  readonly random: Random
  readonly decide: typeof decide
  /** The number of the namespace, if the caller knows it. Then nothing is registered. */
  readonly namespaceNo?: number
}

export const systemParts: Parts = { clock: systemClock, random: systemRandom, decide }
