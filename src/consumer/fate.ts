import type { Arrival } from './inbox/arrival.ts'

/** What became of a message. An attempt finds it, and whoever talks to the broker acts on it. */
export type Fate =
  /** Its effect committed just now. `witness`: an inbox id of the same transaction; null: it has none. */
  | { readonly kind: 'applied'; readonly witness: string | null }
  /** Its effect was committed before. */
  | { readonly kind: 'duplicate' }
  /** A dead letter has it. */
  | { readonly kind: 'parked' }
  /** An earlier message of its aggregate is parked, and it will be. */
  | { readonly kind: 'behind' }
  /** Nobody handles it, or somebody began to before. */
  | { readonly kind: 'passed' }
  /** Its predecessor is not applied. */
  | { readonly kind: 'early' }
  /** It runs elsewhere. */
  | { readonly kind: 'busy' }
  /** Its own failure: it ran alone. */
  | { readonly kind: 'failed'; readonly error: unknown }
  /** Nobody's failure, or not known whose: tried again. `alone`: it is the suspect, and runs alone. */
  | { readonly kind: 'again'; readonly alone: boolean }
  /** The store is out of order. */
  | { readonly kind: 'troubled'; readonly error: unknown }

export type Fates = Map<Arrival, Fate>

export type SettledFate = Extract<Fate, { readonly kind: 'applied' | 'duplicate' | 'parked' | 'passed' }>

/** Nothing is left to do: acknowledge. */
export function isSettled(fate: Fate): fate is SettledFate {
  return isApplied(fate) || fate.kind === 'parked' || fate.kind === 'passed'
}

/** Its effect is committed, now or before. */
export function isApplied({ kind }: Fate): boolean {
  return kind === 'applied' || kind === 'duplicate'
}
