import { RERUNS_MAX } from '../../../limits.ts'
import type { FaultKind } from '../fault.ts'
import { eventsOf } from '../trace.ts'
import type { EventOf, TraceEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

/** What really takes the store away, or the reply to a COMMIT. */
const TAKES_THE_STORE_AWAY = new Set<FaultKind>([
  'replyLostAfterCommit',
  'replyLostBeforeCommit',
  'connectionReset',
  'halfOpenConnection',
  'storeOutage',
  'poolExhausted',
])
/** The server ends it at its deadline, and its connection with it. In a batch that must not be told to the others. */
const ENDS_ITS_TRANSACTION = new Set<FaultKind>(['statementHangs', 'pastDeadline'])
const UNAVAILABLE = new Set(['ONCE_STORE_UNAVAILABLE', 'ONCE_COMMIT_UNKNOWN'])
/** What a request's own record says. */
const OWN = new Set(['ONCE_IN_FLIGHT', 'ONCE_MISMATCH', 'ONCE_GONE', 'ONCE_UNREPLAYABLE'])
const CONFLICTS = new Set<FaultKind>(['serializationFailure', 'deadlockVictim'])
/** An outage lasts so long. */
const OUTAGE_MS = 70

export const blame: Checker = {
  id: 'I28',
  says: 'nobody is told that the store is away because of what a statement, a value or another request did',
  check(trace) {
    const batched = new Set(eventsOf(trace, 'plan').flatMap(({ plan }) => (plan.mode === 'batched' ? plan.key : [])))
    const away = eventsOf(trace, 'fault').flatMap(({ fault, at, t }) => {
      const ends = ENDS_ITS_TRANSACTION.has(fault) && !batched.has(at)
      return ends || TAKES_THE_STORE_AWAY.has(fault) ? t : []
    })
    // Who waits for a row of the user's waits to its deadline at worst.
    away.push(...eventsOf(trace, 'wait').flatMap(({ op, t }) => (op === 'user' ? t : [])))
    const stopped = new Set(eventsOf(trace, 'process').flatMap(({ process, what }) => (what === 'born' ? [] : process)))
    const innocent = innocentRequests(trace)
    const skewed = eventsOf(trace, 'fault').some(({ fault }) => fault === 'clockSkew' || fault === 'clockForward')
    const [{ deadlineMs } = { deadlineMs: Infinity }] = eventsOf(trace, 'policy')
    return [...callsOf(trace)].flatMap(({ from, to, inside, process, key, code, message }) => {
      if (stopped.has(process) || away.some((t) => t >= from - OUTAGE_MS && t <= to)) return []
      // The user's own transaction ends at its deadline too, with whatever waits for a turn in it.
      if (inside && to - from >= deadlineMs) return []
      if (UNAVAILABLE.has(code)) return [`a call of ${key} got ${code}, and the store was there: ${message}`]
      if (!innocent.has(key) || OWN.has(code) || isConflict(trace, code, from, to)) return []
      // By a clock that runs fast the others' time is over when one of them hung.
      if (code === 'ONCE_DEADLINE' && skewed) return []
      return [`a request of ${key} got ${code}, which is another one's: ${message}`]
    })
  },
}

/** Requests of a batched route that do nothing wrong. */
function innocentRequests(trace: readonly TraceEvent[]): Set<string> {
  const fine = ({ plan: { mode, trouble, poison, failures, family, key } }: EventOf<'plan'>): boolean =>
    mode === 'batched' && trouble.is === 'none' && !poison && failures === 0 && family === key
  return new Set(eventsOf(trace, 'plan').flatMap((event) => (fine(event) ? event.plan.key : [])))
}

/** It lost too often. */
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
    // Inside a transaction everything counts that happened to it since it began.
    const outer = calls.get(runs.get(began.outer)?.call ?? 0)
    const inside = began.inside !== false
    yield { from: inside ? (outer?.t ?? 0) : began.t, to, inside, process: began.process, key, ...result }
  }
}
