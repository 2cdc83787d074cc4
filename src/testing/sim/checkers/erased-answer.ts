import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const erasedAnswer: Checker = {
  id: 'I36',
  says: 'after an answer was erased, no call that begins later gets it, from whatever cache',
  check(trace) {
    const broken: string[] = []
    const erasures = eventsOf(trace, 'answerErased')
    if (erasures.length === 0) return broken
    const lives = new Map<number, number | null>()
    for (const { effects } of eventsOf(trace, 'commit'))
      for (const { exec, part, life } of effects) if (part === 'main') lives.set(exec, life)
    const calls = new Map(eventsOf(trace, 'call').map((event) => [event.call, event]))
    const outcomes = eventsOf(trace, 'outcome')
    const moves = eventsOf(trace, 'cache').filter(({ what }) => what === 'mixedUp')
    for (const { call, key, result, t } of outcomes) {
      const began = calls.get(call)
      if (result.is !== 'value' || began === undefined) continue
      const gone = erasures.find((of) => of.key === key && of.life === lives.get(result.exec) && of.t < began.t)
      if (gone === undefined) continue
      // An earlier call of the same process, which had the answer before, shared it with this call.
      const isShared = outcomes.some((other) => {
        const first = calls.get(other.call)
        return other.key === key && first?.process === began.process && first.t <= gone.t && other.t >= began.t
      })
      // A cache that moved the entry to another key before the erasure, and back after it, kept it from the erasure.
      const isMoved = moves.some((of) => of.t < gone.t) && moves.some((of) => of.t > gone.t && of.t < t)
      if (!isShared && !isMoved)
        broken.push(`call ${call} of ${key} began after its answer was erased, and got it after ${t - gone.t} ms`)
    }
    return broken
  },
}
