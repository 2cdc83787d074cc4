import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

const RECORD_WRITES = new Set(['completeLeased', 'refuseLeased', 'heartbeat', 'release', 'suspend'])

export const fenced: Checker = {
  id: 'I10',
  says: 'an attempt that lost its lease cannot commit, complete, heartbeat, release, suspend or record a step',
  check(trace) {
    const broken: string[] = []
    for (const { notes, held, records, steps, effects } of eventsOf(trace, 'commit')) {
      for (const [i, { op, key, token }] of notes.entries()) {
        const before = held[i]
        if (token === null || before === undefined) continue
        const ours = String(before.token) === token && before.state === 'inProgress'
        if (ours) continue
        const wrote =
          (RECORD_WRITES.has(op) && records.some((change) => change.key === key)) ||
          (op.endsWith('Step') &&
            (steps.some((change) => change.key === key) || effects.some((effect) => effect.key === key)))
        if (wrote)
          broken.push(`${op} of ${key} with token ${token} wrote beside token ${before.token} (${before.state})`)
      }
    }
    return broken
  },
}
