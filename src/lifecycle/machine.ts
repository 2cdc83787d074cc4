/**
 * The life of one key as a table of states and events. A transition that is not listed must not happen: the simulator
 * checks every commit. `docs/state-machine.md` shows this table, and a test tries every cell.
 */
export const STATES = ['new', 'inProgress', 'completed', 'gone', 'unknown'] as const
export type State = (typeof STATES)[number]

export const EVENTS = [
  'claim', // a caller wins the key
  'complete', // effect and answer commit
  'refuse', // a final 4xx: its answer commits, its effect is rolled back
  'release', // a server error or a crash: rolled back
  'takeOver', // the lease lapsed and the next attempt has a higher token
  'suspend', // an attempt died inside a call without a key, or nobody took over in time
  'resume', // an operator or reconcile settled the outcome
  'expire', // replayFor has passed
  'erase', // an operator removed the answer and what belongs to it
  'renew', // expired, and `expired` is 'rerun'
  'forget', // goneFor has passed: the sweeper may remove the record
] as const
export type Event = (typeof EVENTS)[number]

const NEXT: { readonly [S in State]: { readonly [E in Event]?: State } } = {
  new: { claim: 'inProgress' },
  inProgress: {
    complete: 'completed',
    refuse: 'completed',
    release: 'new',
    takeOver: 'inProgress',
    suspend: 'unknown',
  },
  completed: { expire: 'gone', erase: 'gone' },
  gone: { forget: 'new', renew: 'inProgress', erase: 'gone' },
  unknown: { resume: 'inProgress', complete: 'completed', refuse: 'completed' },
}

/** Returns the next state. Undefined: there is no such transition. */
export function nextState(state: State, event: Event): State | undefined {
  return NEXT[state][event]
}
