import type { LetterReason } from '../../store/dead-letters.ts'
import type { RedriveOutcome, RedriveState } from '../../store/redrives.ts'
import type { Dice } from '../sim/dice.ts'

export type MessageFilter = 'all' | 'aggregate' | 'one' | 'reason'

/**
 * One call about messages, dead letters or redrives. A number names each message, and redrive calls refer to the newest
 * redrive.
 */
export type InboxOp =
  | { readonly do: 'take'; readonly actor: number; readonly messages: readonly number[]; readonly redrive: boolean }
  | { readonly do: 'complete'; readonly actor: number; readonly tried: boolean; readonly settles: boolean }
  | { readonly do: 'rollback'; readonly actor: number }
  | { readonly do: 'apply'; readonly messages: readonly number[]; readonly redrive: boolean; readonly settles: boolean }
  | { readonly do: 'look'; readonly messages: readonly number[]; readonly redrive: boolean }
  | { readonly do: 'enter' | 'trying' | 'untry' | 'tries' | 'getLetter' | 'import'; readonly message: number }
  | { readonly do: 'failed'; readonly message: number; readonly counted: boolean }
  | { readonly do: 'park'; readonly message: number; readonly skip: boolean; readonly reason: LetterReason }
  | { readonly do: 'pass'; readonly partition: number; readonly next: number; readonly witness: number | null }
  | { readonly do: 'list' | 'count' | 'plan'; readonly filter: MessageFilter; readonly message: number }
  | { readonly do: 'discard'; readonly filter: MessageFilter; readonly message: number; readonly limit: number }
  | {
      readonly do: 'create'
      readonly filter: MessageFilter
      readonly message: number
      readonly canary: number
      readonly reorder: boolean
      readonly prepare: boolean
    }
  | { readonly do: 'claim'; readonly lapses: boolean }
  | {
      readonly do: 'beat'
      readonly back: number
      readonly starting: readonly number[]
      readonly ended: readonly number[]
    }
  | { readonly do: 'decide'; readonly back: number; readonly ord: number; readonly outcome: RedriveOutcome }
  | { readonly do: 'release'; readonly back: number }
  | {
      readonly do: 'change'
      readonly from: readonly RedriveState[]
      readonly to: RedriveState
      readonly retry: boolean
      readonly passed: boolean
      readonly held: boolean
    }
  | { readonly do: 'items' | 'copy' | 'status' | 'audit' | 'positions' | 'write' }

export const MESSAGES = 7
const ACTORS = 3
const ORDS = 4
const REASONS: readonly LetterReason[] = ['failed', 'behind', 'crashed']
const FILTERS: readonly MessageFilter[] = ['all', 'all', 'aggregate', 'one', 'reason']
const ALONE = ['items', 'items', 'copy', 'status', 'status', 'audit', 'positions', 'write'] as const

/** `held`: transactions stay open between calls. A store with one writer does not support that. */
export function drawInboxScript(dice: Dice, length: number, held: boolean): InboxOp[] {
  const script = Array.from({ length }, () => drawOp(dice, held))
  return dice.chance(0.3) ? script : [...underWay(dice), ...script]
}

/** Parks some letters and claims a redrive of them, so that the following calls affect it. */
function underWay(dice: Dice): InboxOp[] {
  const parks = some(dice, MESSAGES).map((message): InboxOp => ({
    do: 'park',
    message,
    skip: false,
    reason: dice.pick(REASONS),
  }))
  const canary = dice.below(3)
  return [
    ...parks,
    { do: 'create', filter: 'all', message: 0, canary, reorder: true, prepare: false },
    { do: 'claim', lapses: dice.chance(0.3) },
  ]
}

function drawOp(dice: Dice, held: boolean): InboxOp {
  const actor = dice.below(ACTORS)
  const message = dice.below(MESSAGES)
  const messages = some(dice, MESSAGES)
  const redrive = dice.chance(0.3)
  if (dice.chance(0.3)) return drawWork(dice)
  const roll = dice.next()
  if (held && roll < 0.16) return { do: 'take', actor, messages, redrive }
  if (held && roll < 0.26) return { do: 'complete', actor, tried: dice.chance(0.5), settles: dice.chance(0.5) }
  if (held && roll < 0.3) return { do: 'rollback', actor }
  if (roll < 0.36) return { do: 'apply', messages, redrive, settles: dice.chance(0.5) }
  if (roll < 0.42) return { do: 'look', messages, redrive }
  if (roll < 0.48)
    return { do: dice.pick(['enter', 'trying', 'untry', 'tries', 'getLetter', 'import'] as const), message }
  if (roll < 0.52) return { do: 'failed', message, counted: dice.chance(0.5) }
  if (roll < 0.62) return { do: 'park', message, skip: dice.chance(0.2), reason: dice.pick(REASONS) }
  const witness = roll < 0.64 && dice.chance(0.5) ? message : null
  if (roll < 0.64) return { do: 'pass', partition: dice.below(2), next: dice.below(20), witness }
  const filter = dice.pick(FILTERS)
  if (roll < 0.69) return { do: dice.pick(['list', 'count', 'plan'] as const), filter, message }
  if (roll < 0.71) return { do: 'discard', filter, message, limit: 1 + dice.below(3) }
  if (roll < 0.77)
    return {
      do: 'create',
      filter,
      message,
      canary: dice.below(3),
      reorder: dice.chance(0.5),
      prepare: dice.chance(0.2),
    }
  if (roll < 0.82) return { do: 'claim', lapses: dice.chance(0.5) }
  const back = dice.chance(0.8) ? 0 : 1
  if (roll < 0.86) return { do: 'beat', back, starting: some(dice, ORDS), ended: some(dice, ORDS) }
  if (roll < 0.9) {
    const outcome = dice.pick(['already', 'gone', 'failed', 'failed', 'blocked'] as const)
    return { do: 'decide', back, ord: 1 + dice.below(ORDS), outcome }
  }
  if (roll < 0.92) return { do: 'release', back }
  if (roll < 0.96) return drawChange(dice)
  return { do: dice.pick(ALONE) }
}

/** Draws a call of the process that runs a redrive. */
function drawWork(dice: Dice): InboxOp {
  const back = dice.chance(0.9) ? 0 : 1
  const roll = dice.next()
  if (roll < 0.35) return { do: 'beat', back, starting: some(dice, ORDS), ended: some(dice, ORDS) }
  if (roll < 0.65) {
    const outcome = dice.pick(['already', 'gone', 'failed', 'failed', 'blocked'] as const)
    return { do: 'decide', back, ord: 1 + dice.below(ORDS), outcome }
  }
  if (roll < 0.8) return drawChange(dice)
  return roll < 0.9 ? { do: 'items' } : { do: 'claim', lapses: dice.chance(0.5) }
}

function drawChange(dice: Dice): InboxOp {
  const moves = [
    { from: ['running'], to: 'paused' },
    { from: ['paused'], to: 'running' },
    { from: ['paused'], to: 'running' },
    { from: ['preparing'], to: 'running' },
    { from: ['running'], to: 'running' },
    { from: ['running'], to: 'done' },
    { from: ['preparing', 'running', 'paused'], to: 'aborted' },
  ] as const
  return {
    do: 'change',
    ...dice.pick(moves),
    retry: dice.chance(0.5),
    passed: dice.chance(0.3),
    held: dice.chance(0.3),
  }
}

function some(dice: Dice, of: number): number[] {
  const all = Array.from({ length: of }, (_, n) => n).filter(() => dice.chance(0.35))
  return dice.chance(0.5) ? all : all.toReversed()
}
