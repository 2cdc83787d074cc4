import { isErased } from '../../../lifecycle/record.ts'
import { MEETING } from '../meeting.ts'
import { eventsOf } from '../trace.ts'
import type { EventOf, TraceEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

export const expiry: Checker = {
  id: 'I13',
  says: 'an expired key follows its policy: 410 or a new life, and no replay',
  check(trace) {
    const broken: string[] = []
    const outers = new Set(eventsOf(trace, 'plan').flatMap(({ plan }) => (plan.nestedCalls.length > 0 ? plan.key : [])))
    const policy = eventsOf(trace, 'policy')[0]?.expired ?? 'gone'
    for (const { records, now } of isUnsure(trace) ? [] : eventsOf(trace, 'commit')) {
      for (const { key, before, after } of records) {
        if (before?.state !== 'completed' || after === null || after.life === before.life) continue
        const until = policy === 'rerun' ? before.expiresAt : before.forgetAt
        // A life is the time of its claim. The database's clock may have gone back since.
        const early = until / 1000 - Math.max(now, after.life / 1000)
        if (early > 1) broken.push(`${key} got a new life ${early.toFixed(1)} ms too early`)
      }
    }
    const back = eventsOf(trace, 'fault').flatMap(({ fault, t }) => (fault === 'databaseClockBack' ? t : []))
    for (const event of eventsOf(trace, 'outcome')) {
      const { call, key, result, now } = event
      // An outer operation passes on the refusals of its inner ones.
      if (result.is !== 'error' || result.code !== 'ONCE_GONE' || outers.has(key)) continue
      const began = eventsOf(trace, 'call').find((of) => of.call === call)
      if ([event.record, began?.record].some((of) => of && isErased(of))) continue
      if (wasErased(trace, key, began?.t ?? 0, event.t)) continue
      if (policy === 'rerun') broken.push(`call ${call} of ${key} got 410, but expired keys run again`)
      else if (event.record !== null && event.record.expiresAt / 1000 > now && event.record.state === 'completed') {
        // The clock went back after the refusal: at that time the answer had expired.
        const isBack = back.some((t) => t >= (began?.t ?? 0) && t <= event.t)
        if (began?.record?.life === event.record.life && !isBack)
          broken.push(`call ${call} of ${key} got 410 before its time`)
      }
    }
    if (!trace.some(isClockTrouble)) broken.push(...lateReplays(trace))
    return broken
  },
}

/** A call may meet a tombstone which an erasure has left and a sweep has removed while the call waited. */
function wasErased(trace: readonly TraceEvent[], key: string, from: number, to: number): boolean {
  const commits = eventsOf(trace, 'commit').filter(({ t }) => t >= from && t <= to)
  return commits.some(({ records }) => records.some(({ key: of, after }) => of === key && after && isErased(after)))
}

/**
 * Whether the database's clock went back while operations were nested. A record that was expired at their start may be
 * valid again.
 */
export function isUnsure(trace: readonly TraceEvent[]): boolean {
  if (!eventsOf(trace, 'fault').some(({ fault }) => fault === 'databaseClockBack')) return false
  return eventsOf(trace, 'plan').some(({ plan }) => plan.family === MEETING)
}

/**
 * Checked only when all clocks run at the same speed, because a process measures the remaining time of a remembered
 * record on its own clock.
 */
function lateReplays(trace: readonly TraceEvent[]): string[] {
  const broken: string[] = []
  const times = new Map<number, number>()
  const calls = new Map(eventsOf(trace, 'call').map((event) => [event.call, event]))
  const outcomes = eventsOf(trace, 'outcome')
  for (const event of trace) {
    if (event.kind === 'commit') {
      for (const { exec, key } of event.effects) {
        const record = event.records.find((change) => change.key === key)?.after
        if (record) times.set(exec, record.expiresAt / 1000)
      }
    } else if (event.kind === 'outcome' && event.result.is === 'value') {
      const expiresAt = times.get(event.result.exec)
      const began = calls.get(event.call)
      if (expiresAt === undefined || began === undefined || began.now <= expiresAt + 1) continue
      if (outcomes.some((other) => isShared(other, event, calls, expiresAt))) continue
      const late = (began.now - expiresAt).toFixed(1)
      broken.push(`call ${event.call} of ${event.key} began ${late} ms after the answer it got had expired`)
    }
  }
  return broken
}

/** Whether an earlier call of the same process shared its reply with this later call. */
function isShared(
  other: EventOf<'outcome'>,
  own: EventOf<'outcome'>,
  calls: ReadonlyMap<number, EventOf<'call'>>,
  expiresAt: number,
): boolean {
  const [first, second] = [calls.get(other.call), calls.get(own.call)]
  if (other.key !== own.key || first === undefined || second === undefined) return false
  return first.process === second.process && first.now <= expiresAt && other.t >= second.t && other.t <= own.t
}

/** A sleeping relay counts, because the database's clock advances while the relay is paused. */
function isClockTrouble(event: TraceEvent): boolean {
  return event.kind === 'fault' && (event.fault === 'relayAsleep' || /clock/i.test(event.fault))
}
