import type { Dice } from '../../src/testing/sim/dice.ts'

/** About so long a round takes: its faults, and the time until all is well again. */
const ROUND_S = 40
const FAULTS_AT_ONCE_MAX = 3

/**
 * Rounds of faults that happen at the same time. Every kind comes once before any comes again; a short run has more of
 * them at once.
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

  /** Every kind had its turn. */
  get isThrough(): boolean {
    return this.#first.length === 0
  }

  next(): readonly Kind[] {
    return this.#first.shift() ?? shuffled(this.#dice, this.#kinds).slice(0, 1 + this.#dice.below(FAULTS_AT_ONCE_MAX))
  }

  /** It did not hit: it comes again. */
  again(kind: Kind): void {
    this.#first.push([kind])
  }
}

function shuffled<T>(dice: Dice, list: readonly T[]): T[] {
  const left = [...list]
  return list.map(() => left.splice(dice.below(left.length), 1)[0] as T)
}
