import type { Dice } from './dice.ts'
import type { FaultKind } from './fault.ts'
import type { MakePlan, Plan, Settings } from './plan.ts'
import type { Mode } from './trace.ts'

/** An operation that the handler of another operation runs. */
export interface Child {
  readonly key: string
  /** `run` (or `batched`) finds the surrounding transaction by itself; `join` receives it as an argument. */
  readonly through: 'run' | 'join'
}

/** How a handler runs inner operations. `late`: long after the handler has ended. */
export type How = 'inTurn' | 'all' | 'settled' | 'race' | 'detached' | 'late'

export interface NestedCalls {
  readonly how: How
  readonly children: readonly Child[]
  /** The handler catches the failure of an inner operation. */
  readonly catches: boolean
  /** The handler writes a row of its own at the same time. */
  readonly writes: boolean
}

/**
 * The behaviour of a handler's own statements in its first `times` executions. `commits`: only COMMIT raises. `mute`:
 * the statement succeeds, but its answer cannot be stored.
 */
export interface Trouble {
  readonly is: 'none' | 'raises' | 'hangs' | 'commits' | 'mute'
  readonly times: number
  /** The handler catches the error of its statement and continues. */
  readonly caught: boolean
}

export const NO_TROUBLE: Trouble = { is: 'none', times: 0, caught: false }
/** All operations that meet are one family, because an inner operation gets the input of its outer one. */
export const MEETING = 'meeting'
/** The operation that every message runs inside its handler. */
export const VISITED = 'key-visited'
/** Rows that several operations lock, each in its own order. */
export const ACCOUNTS = [1, 2] as const

type Rates = Readonly<Record<FaultKind, number>>

/**
 * One or two operations that run inner operations, and those inner operations. Clients call all of them directly as
 * well.
 */
export function drawMeeting(dice: Dice, settings: Settings, rates: Rates, make: MakePlan): Plan[] {
  const outers = Array.from({ length: 1 + dice.below(2) }, (_, n) => ({ key: `key-${n}`, mode: drawOuter(dice) }))
  const inners = Array.from({ length: 1 + dice.below(3) }, (_, n) => ({
    key: `key-${outers.length + n}`,
    mode: dice.chance(0.25) ? ('batched' as const) : ('atomic' as const),
    instance: dice.chance(0.3) ? (1 as const) : (0 as const),
  }))
  const keys = inners.map(({ key }) => key)
  const joinable = inners.flatMap(({ key, mode }) => (mode === 'atomic' ? key : []))
  // A leased operation inside a transaction is refused finally, so only atomic ones are ancestors.
  const ancestors = outers.flatMap(({ key, mode }) => (mode === 'atomic' ? key : []))
  return [
    ...outers.map((of) => {
      const plan = withTrouble(dice, rates, make({ ...of, instance: 0 }))
      if (of.mode === 'joined') return withRollbacks(dice, rates, plan, joinable)
      const nestedCalls = Array.from({ length: 1 + dice.below(2) }, () => drawNestedCalls(dice, keys))
      return withSteps(dice, settings, { ...plan, oversize: false, nestedCalls })
    }),
    ...inners.map((of) => {
      const plan = withTrouble(dice, rates, make(of))
      // The keys include the operation itself and its outer ones. Running one of those inside is refused, and the
      // handler continues.
      const nestedCalls = of.mode === 'atomic' && dice.chance(0.35) ? [drawInner(dice, [...keys, ...ancestors])] : []
      return { ...plan, oversize: false, nestedCalls }
    }),
    ...(settings.consumer === null ? [] : [drawVisited(dice, rates, make)]),
  ]
}

/**
 * This operation publishes no events. Otherwise each message would produce more messages whenever its answer expires.
 */
function drawVisited(dice: Dice, rates: Rates, make: MakePlan): Plan {
  const plan = withTrouble(dice, rates, make({ key: VISITED, mode: 'atomic', instance: 0 }))
  return { ...plan, oversize: false, events: [] }
}

function drawOuter(dice: Dice): Mode {
  const roll = dice.next()
  if (roll < 0.5) return 'atomic'
  return roll < 0.75 ? 'joined' : 'leased'
}

function drawNestedCalls(dice: Dice, keys: readonly string[]): NestedCalls {
  const roll = dice.next()
  const how: How =
    roll < 0.25
      ? 'inTurn'
      : roll < 0.5
        ? 'all'
        : roll < 0.65
          ? 'settled'
          : roll < 0.75
            ? 'race'
            : roll < 0.9
              ? 'detached'
              : 'late'
  return {
    how,
    children: drawChildren(dice, keys, 1 + dice.below(3)),
    catches: dice.chance(0.5),
    writes: dice.chance(0.3),
  }
}

function drawInner(dice: Dice, keys: readonly string[]): NestedCalls {
  const children = drawChildren(dice, keys, 1 + dice.below(2))
  return { how: dice.pick(['inTurn', 'all', 'settled'] as const), children, catches: true, writes: dice.chance(0.2) }
}

function drawChildren(dice: Dice, keys: readonly string[], count: number): Child[] {
  return Array.from({ length: count }, () => ({
    key: dice.pick(keys),
    through: dice.chance(0.3) ? ('join' as const) : ('run' as const),
  }))
}

function withTrouble(dice: Dice, rates: Rates, plan: Plan): Plan {
  const locks = dice.chance(rates.rowsCrossed) ? (dice.chance(0.5) ? ACCOUNTS : ACCOUNTS.toReversed()) : []
  return { ...plan, trouble: drawTrouble(dice, rates, plan.mode), locks: plan.mode === 'batched' ? [] : locks }
}

function drawTrouble(dice: Dice, rates: Rates, mode: Mode): Trouble {
  const times = 1 + dice.below(2)
  const caught = dice.chance(0.3)
  if (mode === 'leased') return dice.chance(rates.handlerHangs) ? { is: 'hangs', times: 1, caught } : NO_TROUBLE
  if (dice.chance(rates.statementRaises)) return { is: 'raises', times, caught }
  if (dice.chance(rates.commitRaises)) return { is: 'commits', times, caught }
  if (dice.chance(rates.statementHangs)) return { is: 'hangs', times: 1, caught }
  return NO_TROUBLE
}

/** Many requests that share a transaction. Some of them fail, and at most one hangs. */
export function drawBatch(dice: Dice, make: MakePlan): Plan[] {
  const kinds = ['raises', 'commits', 'mute'] as const
  const hanging = dice.below(12)
  return Array.from({ length: 3 + dice.below(7) }, (_, n) => {
    const plan = make({ key: `key-${n}`, mode: 'batched', instance: 0 })
    const is = n === hanging ? 'hangs' : dice.chance(0.25) ? dice.pick(kinds) : 'none'
    return { ...plan, oversize: false, trouble: { is, times: is === 'none' ? 0 : 1, caught: false } }
  })
}

/**
 * An operation in the user's own transaction joins its inner operations to that transaction and waits for all of them.
 */
function withRollbacks(dice: Dice, rates: Rates, plan: Plan, keys: readonly string[]): Plan {
  const how = dice.pick(['inTurn', 'settled', 'settled'] as const)
  const children = keys.length === 0 ? [] : drawChildren(dice, keys, 1 + dice.below(3))
  const calls: NestedCalls = {
    how,
    children: children.map(({ key }) => ({ key, through: 'join' })),
    catches: dice.chance(0.5),
    // Statements through the user's own transaction object take no turns, so they must not run beside joined
    // operations.
    writes: false,
  }
  const rollbacks = dice.chance(rates.transactionRolledBack) ? 1 : 0
  return { ...plan, oversize: false, nestedCalls: [calls], rollbacks }
}

/** Parallel outside calls: one fails while another one, without an idempotency key, is in progress. */
function withSteps(dice: Dice, { leaseMs }: Settings, plan: Plan): Plan {
  if (plan.mode !== 'leased' || !dice.chance(0.6)) return plan
  const slowMs = (): number => (dice.chance(0.5) ? dice.below(leaseMs) : 0)
  const steps = Array.from({ length: 2 + dice.below(2) }, (_, n) => ({
    name: `call-${n + 1}`,
    keyed: n > 0 && dice.chance(0.6),
    reconcile: dice.chance(0.7),
    failures: dice.chance(0.4) ? 1 : 0,
    slowMs: slowMs(),
  }))
  return { ...plan, steps, parallel: true }
}
