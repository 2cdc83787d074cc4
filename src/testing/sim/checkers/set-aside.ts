import type { LetterState } from '../../../store/dead-letters.ts'
import type { Checker } from './checker.ts'

export const setAside: Checker = {
  id: 'I9, 32',
  says: 'an applied message has no unsettled dead letter; only a redrive applies a message that has one',
  check(trace) {
    const broken: string[] = []
    const states = new Map<string, LetterState>()
    for (const happened of trace) {
      if (happened.kind === 'letter') {
        const { event, state, from, applied } = happened
        if (state === null) states.delete(event)
        else states.set(event, state)
        if (from === null && applied) broken.push(`${event} was set aside as ${state}, and its effect is committed`)
      } else if (happened.kind === 'commit') {
        // The trace lists the letters of a commit before the commit. So the letter of a redriven event is already
        // marked as redriven.
        for (const event of happened.applied) {
          const state = states.get(event)
          if (state !== undefined && state !== 'redriven')
            broken.push(`${event} was applied, and its letter is ${state}`)
        }
      }
    }
    return broken
  },
}
