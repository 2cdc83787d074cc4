import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const oneRuns: Checker = {
  id: 'I5',
  says: 'while one holds the key nobody else runs, and nothing runs in a life that has its answer',
  check(trace) {
    const broken: string[] = []
    for (const { exec, key, rivals, record, now, mode, attempt, lost } of eventsOf(trace, 'run')) {
      if (rivals > 0) broken.push(`execution ${exec} of ${key} started while another one held the key`)
      const done = !lost && record?.state === 'completed' && record.expiresAt / 1000 > now
      if (done && mode === 'atomic') broken.push(`execution ${exec} of ${key} started, but the key has its answer`)
      if (done && mode === 'leased' && record.attempt === attempt)
        broken.push(`execution ${exec} of ${key} started again`)
    }
    // A clock that went back between the statement and its commit makes any lease look alive.
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
