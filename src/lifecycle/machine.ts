/**
 * The life of one key as a table: every state, every event, where it leads. What is not listed does not happen: the
 * simulator checks every commit against it. `docs/state-machine.md` shows this table, and a test walks every cell.
 */
export const STATES = ['new', 'inProgress', 'completed', 'gone', 'unknown'] as const
export type State = (typeof STATES)[number]

export const EVENTS = [
  'claim', // a caller wins the key
  'complete', // effect and answer commit
  'refuse', // a final 4xx: its answer commits, its effect does not
  'release', // server error or crash: rolled back
  'takeOver', // the lease lapsed and the next attempt has a higher token
  'suspend', // died inside an unkeyed outside call, or lapsed past its time
  'resume', // an operator or reconcile says: go on
  'expire', // replayFor has passed
  'renew', // expired, and the policy says rerun
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
  completed: { expire: 'gone' },
  gone: { forget: 'new', renew: 'inProgress' },
  unknown: { resume: 'inProgress', complete: 'completed', refuse: 'completed' },
}

/** The state that follows, or undefined where the edge does not exist. */
export function nextState(state: State, event: Event): State | undefined {
  return NEXT[state][event]
}
