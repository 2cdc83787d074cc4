import type { FaultKind } from '../fault.ts'
import { IMPORTED } from '../imports.ts'
import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

/** After these the broker may give a message to another process. */
const MOVES: ReadonlySet<FaultKind> = new Set<FaultKind>(['rebalance', 'ackLost', 'pausePastLease'])

export const told: Checker = {
  id: 'I24',
  says: 'unless a process died, the observer has heard of everything that was applied, sent and parked',
  check(trace) {
    const broken: string[] = []
    if (eventsOf(trace, 'process').some(({ what }) => what === 'died')) return broken
    const heard = { applied: 0, sent: 0, letters: 0 }
    for (const { signal, count } of eventsOf(trace, 'told')) heard[signal] += count
    const applied = eventsOf(trace, 'commit').reduce((sum, commit) => sum + commit.applied.length, 0)
    if (heard.applied < applied) broken.push(`${applied} messages were applied, and ${heard.applied} told of`)
    // If the reply to the write was lost and the message then went to another process, no process knows who wrote it.
    const faults = eventsOf(trace, 'fault')
    const unsure = new Set(faults.filter(({ at }) => at === 'inbox.park').map(({ t }) => t))
    const movedAt = Math.max(...faults.filter(({ fault }) => MOVES.has(fault)).map(({ t }) => t))
    // Only the caller of an import learns how many letters it wrote.
    const written = eventsOf(trace, 'letter').filter(
      ({ from, state, reason, t }) =>
        from === null && state !== null && reason !== IMPORTED && !(unsure.has(t) && t < movedAt),
    ).length
    if (heard.letters < written) broken.push(`${written} dead letters were written, and ${heard.letters} told of`)
    return broken
  },
}
