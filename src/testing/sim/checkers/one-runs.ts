import { eventsOf, type TraceEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

export const oneRuns: Checker = {
  id: 'I5',
  says: 'while one attempt holds the key, no other runs; no attempt runs in a life that has its answer',
  check(trace) {
    const broken: string[] = []
    for (const run of eventsOf(trace, 'run')) {
      const { exec, key, rivals, record, mode, attempt, lost } = run
      if (rivals > 0) broken.push(`execution ${exec} of ${key} started while another one held the key`)
      const done = !lost && record?.state === 'completed' && record.expiresAt / 1000 > latestNow(trace, run)
      if (done && mode === 'atomic') broken.push(`execution ${exec} of ${key} started, but the key has its answer`)
      if (done && mode === 'leased' && record.attempt === attempt)
        broken.push(`execution ${exec} of ${key} started again`)
    }
    // If the clock went back between the statement and its commit, a lapsed lease looks valid.
    const wentBack = eventsOf(trace, 'fault').some(({ fault }) => fault === 'databaseClockBack')
    for (const { records, now } of wentBack ? [] : eventsOf(trace, 'commit')) {
      for (const { key, before, after } of records) {
        if (before?.state !== 'inProgress' || after === null || after.token === before.token) continue
        if ((before.leaseUntil ?? 0) / 1000 > now) broken.push(`${key} was taken over before its lease had lapsed`)
      }
    }
    return broken
  },
}

/**
 * The latest time of the database since the call came: the claim may have seen that the answer had expired before the
 * clock went back.
 */
function latestNow(trace: readonly TraceEvent[], run: TraceEvent & { readonly kind: 'run' }): number {
  const end = trace.indexOf(run)
  const start = trace.findIndex((happened) => happened.kind === 'call' && happened.call === run.call)
  return Math.max(...trace.slice(Math.max(start, 0), end + 1).map(({ now }) => now))
}
