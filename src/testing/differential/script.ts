import type { Dice } from '../sim/dice.ts'

/** One call of the store. Actors hold transactions open between their calls. Numbers name keys and leases. */
export type Op =
  | {
      readonly do: 'begin'
      readonly actor: number
      readonly key: number
      readonly input: number
      readonly short: boolean
    }
  | { readonly do: 'claimInside'; readonly actor: number; readonly key: number; readonly input: number }
  | {
      readonly do: 'reread' | 'renew' | 'effect' | 'complete' | 'rollback' | 'savepoint' | 'raise' | 'deferRaise'
      readonly actor: number
    }
  /** Two calls at the same time. One connection runs them one after the other. */
  | { readonly do: 'together'; readonly actor: number; readonly with: 'savepoint' | 'raise' }
  | {
      readonly do: 'rollbackTo' | 'releaseSavepoint'
      readonly actor: number
      /** The index of the actor's savepoint, counted from the newest. The savepoint may no longer exist. */
      readonly back: number
    }
  | { readonly do: 'read' | 'takeOver'; readonly key: number }
  | { readonly do: 'refuse'; readonly key: number; readonly input: number }
  | {
      readonly do: 'lease'
      readonly key: number
      readonly input: number
      readonly lapses: boolean
      readonly short: boolean
    }
  | {
      readonly do:
        'release' | 'suspend' | 'refuseLease' | 'startStep' | 'finishStep' | 'steps' | 'commitLease' | 'stepTx'
      readonly key: number
      /** The index of the key's lease, counted from the newest. */
      readonly back: number
    }
  | { readonly do: 'settle'; readonly key: number; readonly verdict: 'done' | 'rerun' | 'failed' }
  | { readonly do: 'batch'; readonly input: number; readonly rerun: boolean }
  | { readonly do: 'heartbeat' | 'sweep' | 'lapsed' | 'unknown' }

export const ACTORS = 3
export const KEYS = 2

const BY_ACTOR = ['reread', 'renew', 'effect', 'complete', 'complete', 'rollback', 'savepoint', 'savepoint'] as const
const BY_LEASE = [
  'release',
  'suspend',
  'refuseLease',
  'startStep',
  'finishStep',
  'steps',
  'commitLease',
  'stepTx',
] as const
const ALONE = ['heartbeat', 'sweep', 'lapsed', 'unknown'] as const

export function drawScript(dice: Dice, length: number): Op[] {
  return Array.from({ length }, () => drawOp(dice))
}

function drawOp(dice: Dice): Op {
  const actor = dice.below(ACTORS)
  const key = dice.below(KEYS)
  const input = dice.chance(0.75) ? 1 : 2
  const roll = dice.next()
  if (roll < 0.2) return { do: 'begin', actor, key, input, short: dice.chance(0.3) }
  if (roll < 0.38) return { do: dice.pick(BY_ACTOR), actor }
  if (roll < 0.43) return { do: dice.pick(['rollbackTo', 'releaseSavepoint'] as const), actor, back: dice.below(3) }
  if (roll < 0.46) return { do: 'together', actor, with: dice.pick(['savepoint', 'raise'] as const) }
  if (roll < 0.48) return { do: dice.pick(['raise', 'deferRaise'] as const), actor }
  if (roll < 0.52) return { do: 'claimInside', actor, key, input }
  if (roll < 0.58) return { do: 'read', key }
  if (roll < 0.66) return { do: 'lease', key, input, lapses: dice.chance(0.6), short: dice.chance(0.2) }
  if (roll < 0.72) return { do: 'takeOver', key }
  if (roll < 0.86) return { do: dice.pick(BY_LEASE), key, back: dice.chance(0.8) ? 0 : 1 }
  if (roll < 0.89) return { do: 'refuse', key, input }
  if (roll < 0.92) return { do: 'settle', key, verdict: dice.pick(['done', 'rerun', 'failed'] as const) }
  if (roll < 0.95) return { do: 'batch', input, rerun: dice.chance(0.5) }
  return { do: dice.pick(ALONE) }
}
