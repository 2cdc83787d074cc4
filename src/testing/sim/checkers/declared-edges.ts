import { nextState } from '../../../lifecycle/machine.ts'
import type { State, Event } from '../../../lifecycle/machine.ts'
import { isErased } from '../../../lifecycle/record.ts'
import { eventsOf } from '../trace.ts'
import type { RecordChange } from '../trace.ts'
import type { Checker } from './checker.ts'
import { isUnsure } from './expiry.ts'

export const declaredEdges: Checker = {
  id: 'I12',
  says: 'a record changes state only along declared transitions; a completed record stays completed until it expires',
  check(trace) {
    const broken: string[] = []
    const unsure = isUnsure(trace)
    for (const { records, now } of eventsOf(trace, 'commit')) {
      for (const change of records) {
        if (unsure && change.before?.state === 'completed') continue
        const { from, path, to } = pathOf(change, now)
        let state: State | undefined = from
        for (const event of path) state = state === undefined ? undefined : nextState(state, event)
        if (path.length === 0 || state !== to) broken.push(`${change.key} went from ${from} to ${to}`)
      }
    }
    return broken
  },
}

/** The transitions that explain a change of a record, or an empty path if none do. */
function pathOf({ before, after }: RecordChange, now: number): { from: State; path: Event[]; to: State } {
  const over = before?.state === 'completed' && (before.expiresAt / 1000 <= now || isErased(before))
  const from: State = before === null ? 'new' : over ? 'gone' : before.state
  const to: State = after === null ? 'new' : isErased(after) ? 'gone' : after.state
  return { from, path: eventsBetween(from, to, before !== null && after !== null && before.life === after.life), to }
}

function eventsBetween(from: State, to: State, sameLife: boolean): Event[] {
  if (from === 'new') return to === 'completed' ? ['claim', 'complete'] : ['claim']
  if (from === 'gone') {
    if (to === 'new') return ['forget']
    if (to === 'gone') return ['erase']
    if (sameLife) return []
    return to === 'completed' ? ['renew', 'complete'] : ['renew']
  }
  if (from === 'inProgress') {
    if (to === 'inProgress') return ['takeOver']
    // An atomic attempt may take over a leased record that has no step yet.
    if (to === 'completed') return sameLife ? ['complete'] : ['takeOver', 'complete']
    return to === 'unknown' ? ['suspend'] : []
  }
  if (from === 'completed') return to === 'gone' ? ['erase'] : []
  if (from === 'unknown') return to === 'inProgress' ? ['resume'] : to === 'completed' ? ['complete'] : []
  return []
}
