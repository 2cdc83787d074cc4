import type { HeldState } from '../../store/outbox.ts'
import type { Dice } from '../sim/dice.ts'

/** One call of a relay. Numbers name relays, aggregates and their events. */
export type OutboxOp =
  | { readonly do: 'publish'; readonly aggregate: number; readonly events: number; readonly commits: boolean }
  | { readonly do: 'lease'; readonly relay: number; readonly lapses: boolean }
  | { readonly do: 'beat'; readonly relay: number; readonly lapses: boolean }
  | { readonly do: 'release'; readonly relay: number; readonly leaving: boolean }
  | { readonly do: 'read'; readonly aggregate: number; readonly limit: number }
  | {
      readonly do: 'ack'
      readonly relay: number
      readonly aggregate: number
      /** How many of the unsent events the cursor passes. */
      readonly passes: number
      /** The state in which the first of these events is held, or null if it was sent. */
      readonly holds: HeldState | null
      readonly due: boolean
      readonly trying: boolean
    }
  | { readonly do: 'due'; readonly relay: number; readonly behind: number }
  | { readonly do: 'tryHeld'; readonly relay: number; readonly tried: number; readonly due: boolean }
  | {
      readonly do: 'settleHeld'
      readonly relay: number
      readonly verdict: 'sent' | 'waiting' | 'parked' | 'skipped' | 'kept'
      readonly parks: boolean
      /** The relay considered the aggregate parked. */
      readonly released: boolean
    }
  | {
      readonly do: 'unpark'
      readonly aggregate: number
      readonly release: boolean
      /** The first parked event is skipped. */
      readonly skips: boolean
      readonly limit: number
    }
  | { readonly do: 'resend'; readonly aggregate: number | null }
  | { readonly do: 'destinations' }

export const AGGREGATES = 3
export const RELAYS = 2

export function drawOutboxScript(dice: Dice, length: number): OutboxOp[] {
  return Array.from({ length }, () => drawOp(dice))
}

function drawOp(dice: Dice): OutboxOp {
  const relay = dice.below(RELAYS)
  const aggregate = dice.below(AGGREGATES)
  const roll = dice.next()
  if (roll < 0.16) return { do: 'publish', aggregate, events: 1 + dice.below(3), commits: dice.chance(0.85) }
  if (roll < 0.28) return { do: 'lease', relay, lapses: dice.chance(0.3) }
  if (roll < 0.33) return { do: 'beat', relay, lapses: dice.chance(0.2) }
  if (roll < 0.38) return { do: 'release', relay, leaving: dice.chance(0.5) }
  if (roll < 0.44) return { do: 'read', aggregate, limit: 1 + dice.below(5) }
  if (roll < 0.66) {
    const holds = dice.chance(0.6) ? dice.pick(['waiting', 'waiting', 'delayed', 'parked', 'skipped'] as const) : null
    const passes = 1 + dice.below(3)
    return { do: 'ack', relay, aggregate, passes, holds, due: dice.chance(0.7), trying: dice.chance(0.4) }
  }
  if (roll < 0.76) return { do: 'due', relay, behind: dice.below(3) }
  if (roll < 0.82) return { do: 'tryHeld', relay, tried: 1 + dice.below(2), due: dice.chance(0.5) }
  if (roll < 0.93) {
    const verdict = dice.pick(['sent', 'sent', 'waiting', 'parked', 'skipped', 'kept'] as const)
    return { do: 'settleHeld', relay, verdict, parks: dice.chance(0.4), released: dice.chance(0.5) }
  }
  if (roll < 0.97) return unpark(dice, aggregate)
  if (roll < 0.99) return { do: 'resend', aggregate: dice.chance(0.5) ? aggregate : null }
  return { do: 'destinations' }
}

function unpark(dice: Dice, aggregate: number): OutboxOp {
  return { do: 'unpark', aggregate, release: dice.chance(0.5), skips: dice.chance(0.4), limit: 1 + dice.below(3) }
}
