import { IMPORTED } from '../imports.ts'
import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const told: Checker = {
  id: 'I24',
  says: 'where no process died, whoever observes has heard of everything that was applied, sent and set aside',
  check(trace) {
    const broken: string[] = []
    if (eventsOf(trace, 'process').some(({ what }) => what === 'died')) return broken
    const heard = { applied: 0, sent: 0, letters: 0 }
    for (const { signal, count } of eventsOf(trace, 'told')) heard[signal] += count
    const applied = eventsOf(trace, 'commit').reduce((sum, commit) => sum + commit.applied.length, 0)
    if (heard.applied < applied) broken.push(`${applied} messages were applied, and ${heard.applied} told of`)
    // Whoever imports letters is told how many: nobody else is.
    const written = eventsOf(trace, 'letter').filter(
      ({ from, state, reason }) => from === null && state !== null && reason !== IMPORTED,
    ).length
    if (heard.letters < written) broken.push(`${written} dead letters were written, and ${heard.letters} told of`)
    return broken
  },
}
