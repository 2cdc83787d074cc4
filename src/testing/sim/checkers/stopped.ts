import type { Checker } from './checker.ts'

export const stopped: Checker = {
  id: 'I38',
  says: 'a relay that stops passes no new event to its sink',
  check(trace) {
    const broken: string[] = []
    const stopping = new Set<string>()
    for (const happened of trace) {
      if (happened.kind === 'stopping' && happened.stopped) stopping.add(happened.process)
      else if (happened.kind === 'stopping') stopping.delete(happened.process)
      else if (happened.kind === 'handed' && stopping.has(happened.process))
        broken.push(`${happened.process} handed over ${happened.events.join(', ')} while it stopped`)
    }
    return broken
  },
}
