import { Dice } from './dice.ts'
import { turns } from './play/turns.ts'

/** Of each entry of a trace: a program stands still about once. */
const CHANCE = 0.025
/** Shorter than a deadline of this mode, longer, and longer than the server waits. */
const SHORTEST_MS = 20
const LONGEST_MS = 600
const LAG_MAX = 6

/** Shorter than most freezes, so that operations meet their deadlines. */
export const FROZEN_DEADLINE = '250ms'

/** Stands this process still at random moments of a program, as a starved machine does. The database goes on. */
export class Freezes {
  readonly #dice: Dice

  constructor(seed: number) {
    this.#dice = new Dice(seed)
  }

  /** For every entry of a trace: in the midst of what the program does, or some turns later. */
  readonly told = (): void => {
    if (!this.#dice.chance(CHANCE)) return
    const ms = SHORTEST_MS + this.#dice.below(LONGEST_MS - SHORTEST_MS)
    const lag = this.#dice.below(LAG_MAX)
    if (lag === 0) standStill(ms)
    else void turns(lag).then(() => standStill(ms))
  }
}

function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
