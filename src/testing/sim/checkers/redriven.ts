import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const redriven: Checker = {
  id: 'I23, 28',
  says: 'a dead letter is settled only when its effect commits or an operator discards it; then it stays settled',
  check(trace) {
    const undone = eventsOf(trace, 'redrive').flatMap(({ redrive, state, pending }) =>
      state === 'done' && pending > 0 ? `redrive ${redrive} is done, and ${pending} of its letters were not tried` : [],
    )
    const letters = eventsOf(trace, 'letter').flatMap(({ event, from, state, applied }) => {
      if (state === null) return `the letter of ${event} is gone`
      if (from === 'redriven' || from === 'discarded') return `the letter of ${event} was ${from}, and is ${state}`
      if (state === 'redriven' && !applied) return `the letter of ${event} is redriven, and its effect is not committed`
      return []
    })
    const redrives = eventsOf(trace, 'relay').some((relay) => relay.redrives)
    const left = eventsOf(trace, 'end').flatMap(({ phase, parked }) => (redrives && phase === 'idle' ? parked : []))
    return [
      ...undone,
      ...letters,
      ...left.map((event) => `${event} was redriven by mended handlers, and is still parked`),
    ]
  },
}
