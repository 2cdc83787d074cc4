import { eventsOf } from '../trace.ts'
import type { EventOf, TraceEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

export const exactRefusals: Checker = {
  id: 'T3',
  says: 'no call is refused because of an outdated state, or told "running" about a key that has its answer',
  check(trace) {
    const broken = eventsOf(trace, 'blind').map(
      ({ key }) => `a claim of ${key} was refused by a snapshot older than its locks`,
    )
    const calls = eventsOf(trace, 'call')
    // An outer operation passes on the refusals of its inner ones. An inner operation holds the key without a call of
    // its own.
    const meeting = new Set(eventsOf(trace, 'plan').flatMap(({ plan }) => (plan.family === plan.key ? [] : plan.key)))
    const began = new Map(calls.map((event) => [event.call, event]))
    const ended = new Map(eventsOf(trace, 'outcome').map((event) => [event.call, event]))
    for (const { call, key, result, record, now, t } of ended.values()) {
      if (result.is !== 'error' || result.code !== 'ONCE_IN_FLIGHT') continue
      const own = began.get(call)
      if (own?.record?.state !== 'completed' || own.record.life !== record?.life) continue
      if (record.expiresAt / 1000 <= now || meeting.has(key)) continue
      const beside = calls.filter(
        (other) => isBeside(other, own) && other.t <= t && (ended.get(other.call)?.t ?? Infinity) >= t,
      )
      // The process itself runs the key, and does not know yet that the operation committed or lost its lease.
      if (beside.some((other) => isRunner(other, own)) || isRunningIn(trace, own, t) || isTakenIn(trace, own, t))
        continue
      const why = beside.length > 0 ? 'its process was only looking' : 'the key had its answer'
      broken.push(`call ${call} of ${key} got 409, but ${why}`)
    }
    return broken
  },
}

function isBeside(other: EventOf<'call'>, own: EventOf<'call'>): boolean {
  return other.key === own.key && other.process === own.process && other.call !== own.call
}

/** Whether a handler of the key runs in the process, or ran in a recovery that does not know its outcome yet. */
function isRunningIn(trace: readonly TraceEvent[], { key, process }: EventOf<'call'>, t: number): boolean {
  const ended = new Set(eventsOf(trace, 'ran').flatMap((event) => (event.t < t ? event.exec : [])))
  return eventsOf(trace, 'run').some(
    (run) =>
      run.key === key &&
      run.process === process &&
      run.t <= t &&
      (!ended.has(run.exec) || (run.call === 0 && isRecovering(trace, run, t))),
  )
}

/**
 * Whether the recovery of the process took the key over, but has not started the handler yet. The process was paused
 * and missed the end.
 */
function isTakenIn(trace: readonly TraceEvent[], { key, process }: EventOf<'call'>, t: number): boolean {
  const before = trace.filter((event) => event.t <= t)
  // While one recovery of the process is paused, another may begin. Only the end of the last one is in the trace.
  const ended = before.findLastIndex((event) => event.kind === 'recovered' && event.process === process)
  const rounds = before.slice(ended + 1)
  const since = rounds.findIndex((event) => event.kind === 'recovering' && event.process === process)
  return rounds
    .slice(since < 0 ? rounds.length : since)
    .some((event) => event.kind === 'commit' && event.records.some((of) => of.key === key && isTakeOver(of)))
}

function isTakeOver({ before, after }: EventOf<'commit'>['records'][number]): boolean {
  return after?.state === 'inProgress' && (before?.attempt ?? 0) < after.attempt
}

function isRecovering(trace: readonly TraceEvent[], run: EventOf<'run'>, t: number): boolean {
  const over = trace.find(
    (event) =>
      event.t >= run.t &&
      ((event.kind === 'recovered' && event.process === run.process) ||
        (event.kind === 'process' && event.process === run.process && event.what === 'died')),
  )
  return over === undefined || over.t >= t
}

function isRunner(other: EventOf<'call'>, own: EventOf<'call'>): boolean {
  return other.record?.state !== 'completed' || other.record.life !== own.record?.life
}
