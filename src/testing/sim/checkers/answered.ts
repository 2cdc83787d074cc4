import { RERUNS_MAX } from '../../../limits.ts'
import { eventsOf } from '../trace.ts'
import type { TraceEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

/** A process's clock may run at half speed, and statements wait for their turn. */
const SLACK = 3

export const answered: Checker = {
  id: 'I27',
  says: 'every call of a live process gets an answer within the time its operation may take',
  check(trace) {
    const broken: string[] = []
    const [policy] = eventsOf(trace, 'policy')
    const longest = policy === undefined ? Infinity : SLACK * longestMs(policy)
    const troubled = troubledProcesses(trace)
    const ended = new Map(eventsOf(trace, 'outcome').map(({ call, t }) => [call, t]))
    const idle = eventsOf(trace, 'end').some(({ phase }) => phase === 'idle')
    for (const { call, key, process, t } of eventsOf(trace, 'call')) {
      const at = ended.get(call)
      if (troubled.has(process)) continue
      if (at === undefined && idle) broken.push(`call ${call} of ${key} was never answered`)
      if ((at ?? 0) - t > longest) broken.push(`call ${call} of ${key} was answered after ${Math.round(at! - t)} ms`)
    }
    const settled = new Set(eventsOf(trace, 'innerOutcome').map(({ inner }) => inner))
    for (const { inner, key, process } of eventsOf(trace, 'inner')) {
      if (idle && !settled.has(inner) && !troubled.has(process))
        broken.push(`call ${inner} of ${key} inside another operation was never answered`)
    }
    return broken
  },
}

/** Each attempt waits for a connection, and runs until its deadline. */
function longestMs({ deadlineMs, endsWithinMs, waitMs }: Limits): number {
  return endsWithinMs + waitMs + 2 * (RERUNS_MAX + 1) * deadlineMs
}

type Limits = Pick<Extract<TraceEvent, { kind: 'policy' }>, 'deadlineMs' | 'endsWithinMs' | 'waitMs'>

/** The processes that died or were paused. A dead process never answers, and a paused one answers late. */
function troubledProcesses(trace: readonly TraceEvent[]): Set<string> {
  return new Set(eventsOf(trace, 'process').flatMap(({ process, what }) => (what === 'born' ? [] : process)))
}
