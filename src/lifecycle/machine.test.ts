import { describe, expect, it } from 'vitest'
import { EVENTS, nextState, STATES, type Event, type State } from './machine.ts'

/** Every edge there is, written down a second time on purpose: a change of the table must be meant. */
const EDGES: Record<string, State> = {
  'new claim': 'inProgress',
  'inProgress complete': 'completed',
  'inProgress refuse': 'completed',
  'inProgress release': 'new',
  'inProgress takeOver': 'inProgress',
  'inProgress suspend': 'unknown',
  'completed expire': 'gone',
  'completed erase': 'gone',
  'gone forget': 'new',
  'gone renew': 'inProgress',
  'gone erase': 'gone',
  'unknown resume': 'inProgress',
  'unknown complete': 'completed',
  'unknown refuse': 'completed',
}

const cells = STATES.flatMap((state) => EVENTS.map((event): [State, Event] => [state, event]))

describe('the life of a key', () => {
  it.each(cells)('%s, %s', (state, event) => {
    expect(nextState(state, event)).toBe(EDGES[`${state} ${event}`])
  })

  it('reaches every state from new, and new again from every state but through time', () => {
    const reached = new Set<State>(['new'])
    for (let before = 0; before !== reached.size;) {
      before = reached.size
      for (const state of reached) for (const event of EVENTS) reached.add(nextState(state, event) ?? state)
    }
    expect(reached).toEqual(new Set(STATES))
    expect(EVENTS.filter((event) => nextState('completed', event))).toEqual(['expire', 'erase'])
  })
})
