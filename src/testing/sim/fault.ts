import type { Dice } from './dice.ts'

/**
 * Every fault of the simulation, with the highest rate that a seed may draw for it. A rate is a probability per
 * opportunity.
 */
export const FAULTS = {
  dieBefore: 0.02,
  dieAfterEffect: 0.03,
  replyLostAfterCommit: 0.1,
  replyLostBeforeCommit: 0.05,
  connectionReset: 0.03,
  halfOpenConnection: 0.02,
  serializationFailure: 0.06,
  deadlockVictim: 0.04,
  poolExhausted: 1,
  pausePastLease: 0.02,
  slowStatement: 0.1,
  lateZombieWrite: 1,
  messageOutlivesSender: 1,
  clockForward: 0.01,
  clockBack: 0.01,
  clockSkew: 1,
  databaseClockForward: 0.01,
  databaseClockBack: 0.01,
  clientDisconnect: 0.05,
  retryStorm: 0.1,
  sweeperAtWorst: 0.03,
  storeOutage: 0.01,
  oversizeAnswer: 0.01,
  answerDropped: 0.01,
  providerReplyLost: 0.1,
  providerDown: 0.05,
  pastDeadline: 0.03,
  brokerDown: 0.04,
  brokerReplyLost: 0.15,
  brokerSilent: 0.05,
  brokerLate: 0.1,
  brokerSlow: 0.1,
  brokerCut: 0.1,
  brokerRefusal: 0.1,
  relayAsleep: 1,
  brokerDuplicate: 0.4,
  brokerReorder: 1,
  ackLost: 0.15,
  rebalance: 0.06,
  silentHeartbeat: 0.04,
  // These faults are drawn into the plans of operations that meet. The rate is the share of plans whose first one or
  // two executions have the fault.
  statementRaises: 0.5,
  statementHangs: 0.2,
  commitRaises: 0.2,
  rowsCrossed: 0.8,
  handlerHangs: 0.3,
  transactionRolledBack: 0.6,
  answerUnwritable: 1,
} as const

export type FaultKind = keyof typeof FAULTS

export const FAULT_KINDS: readonly FaultKind[] = Object.keys(FAULTS) as FaultKind[]

const ZOMBIE_RATE = 0.06

/** Swarm testing: each seed switches off half of the faults, and draws its own rates for the rest. */
export function drawRates(dice: Dice, zombies: boolean): Readonly<Record<FaultKind, number>> {
  const rates = {} as Record<FaultKind, number>
  for (const kind of FAULT_KINDS) rates[kind] = dice.chance(0.5) ? FAULTS[kind] * dice.next() : 0
  if (zombies) rates.pausePastLease = ZOMBIE_RATE * (0.3 + dice.next())
  return rates
}
