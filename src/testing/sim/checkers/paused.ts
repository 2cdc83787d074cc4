import type { Checker } from './checker.ts'

export const paused: Checker = {
  id: 'I32',
  says: 'a paused relay passes no new event to its sink',
  check(trace) {
    const broken: string[] = []
    const resting = new Set<string>()
    for (const happened of trace) {
      if (happened.kind === 'pausing' && happened.paused) resting.add(happened.process)
      else if (happened.kind === 'pausing') resting.delete(happened.process)
      else if (happened.kind === 'handed' && resting.has(happened.process))
        broken.push(`${happened.process} handed over ${happened.events.join(', ')} while it was paused`)
    }
    return broken
  },
}
