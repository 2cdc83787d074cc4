/** Randomness for jitter only: nothing that must be unique or secret comes from here. A seam for the simulator. */
export interface Random {
  /** A number in [0, 1). */
  next(): number
}

export const systemRandom: Random = { next: () => Math.random() }
