import type { Arrival } from './inbox/arrival.ts'

/** What became of a message. An attempt at the message tells its fate, and the loop settles the message by it. */
export type Fate =
  /** The effect was committed just now. `witness` is an inbox id of the same transaction. Null: there is none. */
  | { readonly kind: 'applied'; readonly witness: string | null }
  /** The effect was committed earlier. */
  | { readonly kind: 'duplicate' }
  /** The message is stored as a dead letter. */
  | { readonly kind: 'parked' }
  /** An earlier message of the aggregate is parked. This message will be parked behind it. */
  | { readonly kind: 'behind' }
  /** No handler takes its type, or, at most once, an earlier attempt already began. */
  | { readonly kind: 'passed' }
  /** The message before it is not applied yet. */
  | { readonly kind: 'early' }
  /** Another process runs it now. */
  | { readonly kind: 'busy' }
  /** Its own failure, because it ran alone. */
  | { readonly kind: 'failed'; readonly error: unknown }
  /** No message failed, or it is not known which one did: tried again. `alone`: it is suspected, and runs alone. */
  | { readonly kind: 'again'; readonly alone: boolean }
  /** The store is unavailable. */
  | { readonly kind: 'troubled'; readonly error: unknown }

export type Fates = Map<Arrival, Fate>

export type SettledFate = Extract<Fate, { readonly kind: 'applied' | 'duplicate' | 'parked' | 'passed' }>

/** Nothing is left to do, so the message can be acknowledged. */
export function isSettled(fate: Fate): fate is SettledFate {
  return isApplied(fate) || fate.kind === 'parked' || fate.kind === 'passed'
}

/** The effect is committed, by this attempt or an earlier one. */
export function isApplied({ kind }: Fate): boolean {
  return kind === 'applied' || kind === 'duplicate'
}
