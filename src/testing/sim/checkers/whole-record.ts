import { eventsOf } from '../trace.ts'
import type { EventOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const wholeRecord: Checker = {
  id: 'I26',
  says: 'a completed record commits with its answer and with the effect that the answer describes',
  check(trace) {
    // The records of a leased consumer have no plan.
    const planned = new Set(eventsOf(trace, 'plan').map(({ plan }) => plan.key))
    return eventsOf(trace, 'commit').flatMap((commit) =>
      commit.records.flatMap(({ key, before, after }) => {
        if (!planned.has(key)) return []
        if (after?.state !== 'completed' || (before?.state === 'completed' && before.token === after.token)) return []
        return halvesOf(commit, key, after.token)
      }),
    )
  },
}

function halvesOf({ answers, effects }: EventOf<'commit'>, key: string, token: number): string[] {
  const answer = answers.find((of) => of.key === key && of.token === token)
  if (answer === undefined) return [`${key} was completed without an answer`]
  const effect = effects.find((of) => of.key === key && of.part === 'main')
  // The answer was too large to store, so only the presence of the effect is checked.
  if (answer.text === null) return effect === undefined ? [`${key} was completed without its effect`] : []
  const { exec, alpha } = JSON.parse(answer.text) as { exec: number; alpha: boolean }
  if (!alpha) return effect === undefined ? [] : [`${key} was refused, and its effect was committed`]
  return effect?.exec === exec ? [] : [`${key} has the answer of execution ${exec}, and its effect is not there`]
}
