import type { Dice } from '../../src/testing/sim/dice.ts'

/** The approximate duration of a round: its faults, and the time until everything works again. */
const ROUND_S = 40
const FAULTS_AT_ONCE_MAX = 3

/**
 * Rounds of faults that occur at the same time. Every kind occurs once before any kind repeats. A short run has more
 * kinds per round.
 */
export class Schedule<Kind extends string> {
  readonly #dice: Dice
  readonly #kinds: readonly Kind[]
  readonly #first: Kind[][] = []

  constructor(dice: Dice, kinds: readonly Kind[], minutes: number) {
    this.#dice = dice
    this.#kinds = kinds
    const rounds = Math.max(1, Math.floor((minutes * 60) / ROUND_S))
    const size = Math.max(1, Math.ceil(kinds.length / rounds))
    const all = shuffled(dice, kinds)
    for (let at = 0; at < all.length; at += size) this.#first.push(all.slice(at, at + size))
  }

  /** Whether every kind has occurred. */
  get isThrough(): boolean {
    return this.#first.length === 0
  }

  next(): readonly Kind[] {
    return this.#first.shift() ?? shuffled(this.#dice, this.#kinds).slice(0, 1 + this.#dice.below(FAULTS_AT_ONCE_MAX))
  }

  /** Repeats a fault that did not hit. */
  again(kind: Kind): void {
    this.#first.push([kind])
  }
}

function shuffled<T>(dice: Dice, list: readonly T[]): T[] {
  const left = [...list]
  return list.map(() => left.splice(dice.below(left.length), 1)[0] as T)
}
