import type { Program } from '../program.ts'
import type { Entry } from '../trace.ts'
import { messagesWrong } from './consumers.ts'
import { keysWrong } from './keys.ts'
import { afterTransaction, isAbortedAtEnd, isAmong, isOnce, isTainted, type Dialect } from './failures.ts'
import { Fates } from './fates.ts'
import { historyOf, type Call, type Exec, type History } from './history.ts'
import { inWords, Model } from './model.ts'
import { nameOf } from './names.ts'
import { rowsWrong, statementsWrong } from './rows.ts'
import type { Seen } from './seen.ts'
import { stepsWrong } from './steps.ts'
import { childrenOf, settledAt, type Host } from './transactions.ts'
import type { Violation } from './violation.ts'

export interface Case {
  readonly program: Program
  readonly entries: readonly Entry[]
  readonly seen: Seen
  /** The mark of its rows, and the scope of its keys. */
  readonly name: string
  readonly dialect: Dialect
}

/** Every promise that a program saw broken, or that its database shows broken. */
export function judge({ program, entries, seen, name, dialect }: Case): { history: History; violations: Violation[] } {
  const history = historyOf(program, entries)
  const fates = new Fates(history, seen, name)
  const model = new Model(history, fates, dialect)
  const violations = [
    ...endsWrong(history),
    ...history.calls.flatMap((call) => callWrong(call, model.wrong(call))),
    ...history.execs.flatMap((exec) => commitWrong(exec, program, dialect)),
    ...history.owns.flatMap((own) => ownWrong(own, dialect)),
    ...[...history.execs, ...history.owns].flatMap(turnsWrong),
    ...statementsWrong(history, dialect),
    ...rowsWrong(history, fates, seen, name),
    ...keysWrong(history, fates, seen, name),
    ...stepsWrong(history),
    ...messagesWrong(history, seen, name, dialect),
  ]
  return { history, violations }
}

function endsWrong({ calls, killedAt }: History): Violation[] {
  if (killedAt !== null) return []
  return calls.filter(({ end }) => end === null).map((call) => ({ rule: 'end', text: `${nameOf(call)} never ended` }))
}

function callWrong(call: Call, wrong: string | null): Violation[] {
  if (wrong === null || call.heard === null) return []
  return [{ rule: 'outcome', text: `${nameOf(call)} heard ${inWords(call.heard)}: it ${wrong}` }]
}

function commitWrong(exec: Exec, program: Program, dialect: Dialect): Violation[] {
  const { kind, outcome, call } = exec
  if ((kind !== 'commit' && kind !== 'step.tx') || outcome === null || !call) return []
  const operation = program.operations[call.op]
  const answer = kind === 'commit' && operation?.mode === 'leased' && !call.calm ? operation.answer : 'plain'
  const allowed = afterTransaction(exec, answer, 'none', dialect)
  if (allowed.length === 0 || isAmong(outcome, allowed)) return []
  // A step found that nobody knows its outcome: the operation stops there, whoever was about to end it.
  const stopped = exec.of?.steps.some(({ heard }) => heard !== null && isOnce(heard, 'ONCE_OUTCOME_UNKNOWN'))
  if (stopped && isOnce(outcome, 'ONCE_LEASE_LOST')) return []
  const should = allowed.map(inWords).join(' or ')
  return [
    { rule: 'outcome', text: `${kind} of ${nameOf(call)} heard ${inWords(outcome)}: it should have heard ${should}` },
  ]
}

function ownWrong(own: Extract<Host, { is: 'own' }>, dialect: Dialect): Violation[] {
  if (own.heard === null || !('value' in own.heard)) return []
  const aborted = isAbortedAtEnd(own, dialect) && !isTainted(own, dialect)
  return aborted ? [{ rule: 'outcome', text: 'an aborted transaction was committed' }] : []
}

/** Nested operations take turns, in the order of their calls; and whoever has the transaction waits for them. */
function turnsWrong(host: Host): Violation[] {
  const violations: Violation[] = []
  const children = childrenOf(host)
  const runs = children.flatMap((call) => call.execs.filter(({ kind }) => kind === 'atomic'))
  for (const [i, exec] of runs.entries()) {
    const overtaken = runs.slice(0, i).find(({ end }) => (end ?? Infinity) > exec.at)
    if (overtaken?.call && exec.call && overtaken.call !== exec.call)
      violations.push({ rule: 'turns', text: `${nameOf(exec.call)} began before ${nameOf(overtaken.call)} had ended` })
  }
  for (const call of children) {
    if (call.end !== null && call.end > settledAt(host))
      violations.push({ rule: 'waits', text: `${nameOf(call)} ended after the operation that it was part of` })
  }
  return violations
}
