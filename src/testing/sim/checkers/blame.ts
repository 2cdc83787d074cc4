import { RERUNS_MAX } from '../../../limits.ts'
import type { FaultKind } from '../fault.ts'
import { eventsOf } from '../trace.ts'
import type { EventOf, TraceEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

/** The faults that make the store unavailable, or lose the reply to a COMMIT. */
const TAKES_THE_STORE_AWAY = new Set<FaultKind>([
  'replyLostAfterCommit',
  'replyLostBeforeCommit',
  'connectionReset',
  'halfOpenConnection',
  'storeOutage',
  'poolExhausted',
])
/**
 * The faults after which the server ends the transaction and its connection at the deadline. Other requests of the same
 * batch must not get this error.
 */
const ENDS_ITS_TRANSACTION = new Set<FaultKind>(['statementHangs', 'pastDeadline'])
const UNAVAILABLE = new Set(['ONCE_STORE_UNAVAILABLE', 'ONCE_COMMIT_UNKNOWN'])
/** The errors that the request's own record explains. */
const OWN = new Set(['ONCE_IN_FLIGHT', 'ONCE_MISMATCH', 'ONCE_GONE', 'ONCE_UNREPLAYABLE'])
const CONFLICTS = new Set<FaultKind>(['serializationFailure', 'deadlockVictim'])
/** The duration of an outage. */
const OUTAGE_MS = 70

export const blame: Checker = {
  id: 'I28',
  says: 'a caller gets no "store unavailable" error because of a statement, a value or another request',
  check(trace) {
    const batched = new Set(eventsOf(trace, 'plan').flatMap(({ plan }) => (plan.mode === 'batched' ? plan.key : [])))
    const away = eventsOf(trace, 'fault').flatMap(({ fault, at, t }) => {
      const ends = ENDS_ITS_TRANSACTION.has(fault) && !batched.has(at)
      return ends || TAKES_THE_STORE_AWAY.has(fault) ? t : []
    })
    // A transaction that waits for a row of the user's may wait until its deadline.
    away.push(...eventsOf(trace, 'wait').flatMap(({ op, t }) => (op === 'user' ? t : [])))
    const stopped = new Set(eventsOf(trace, 'process').flatMap(({ process, what }) => (what === 'born' ? [] : process)))
    const innocent = innocentRequests(trace)
    const skewed = eventsOf(trace, 'fault').some(({ fault }) => fault === 'clockSkew' || fault === 'clockForward')
    const [{ deadlineMs } = { deadlineMs: Infinity }] = eventsOf(trace, 'policy')
    return [...callsOf(trace)].flatMap(({ from, to, inside, process, key, code, message }) => {
      if (stopped.has(process) || away.some((t) => t >= from - OUTAGE_MS && t <= to)) return []
      // The user's own transaction ends at its deadline too, with every operation that waits for a turn in it.
      if (inside && to - from >= deadlineMs) return []
      if (UNAVAILABLE.has(code)) return [`a call of ${key} got ${code}, and the store was there: ${message}`]
      if (!innocent.has(key) || OWN.has(code) || isConflict(trace, code, from, to)) return []
      // If one request hung, the other requests are past their deadline by a clock that runs fast.
      if (code === 'ONCE_DEADLINE' && skewed) return []
      return [`a request of ${key} got ${code}, which is another one's: ${message}`]
    })
  },
}

/** The requests of a batched route that have no fault. */
function innocentRequests(trace: readonly TraceEvent[]): Set<string> {
  const fine = ({ plan: { mode, trouble, poison, failures, family, key } }: EventOf<'plan'>): boolean =>
    mode === 'batched' && trouble.is === 'none' && !poison && failures === 0 && family === key
  return new Set(eventsOf(trace, 'plan').flatMap((event) => (fine(event) ? event.plan.key : [])))
}

/** Whether the transaction was retried too often because of conflicts. */
function isConflict(trace: readonly TraceEvent[], code: string, from: number, to: number): boolean {
  if (code !== 'ONCE_CONFLICT') return false
  const lost = eventsOf(trace, 'fault').filter(({ fault, t }) => CONFLICTS.has(fault) && t >= from && t <= to)
  return lost.length > RERUNS_MAX
}

interface Failed {
  readonly from: number
  readonly to: number
  readonly inside: boolean
  readonly process: string
  readonly key: string
  readonly code: string
  readonly message: string
}

function* callsOf(trace: readonly TraceEvent[]): Generator<Failed> {
  const calls = new Map(eventsOf(trace, 'call').map((event) => [event.call, event]))
  for (const { call, key, result, t: to } of eventsOf(trace, 'outcome')) {
    const began = calls.get(call)
    if (result.is === 'error' && began)
      yield { from: began.t, to, inside: false, process: began.process, key, ...result }
  }
  const inners = new Map(eventsOf(trace, 'inner').map((event) => [event.inner, event]))
  const runs = new Map(eventsOf(trace, 'run').map((event) => [event.exec, event]))
  for (const { inner, key, result, t: to } of eventsOf(trace, 'innerOutcome')) {
    const began = inners.get(inner)
    if (result.is !== 'error' || !began) continue
    // For a call inside a transaction, every fault since the start of that transaction counts.
    const outer = calls.get(runs.get(began.outer)?.call ?? 0)
    const inside = began.inside !== false
    yield { from: inside ? (outer?.t ?? 0) : began.t, to, inside, process: began.process, key, ...result }
  }
}
