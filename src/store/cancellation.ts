/**
 * The answer of `cancel`. `cancelled`: the event is sent to nobody. `due`: its time has come, so it was sent, or will be.
 * `ordered`: consumers wait for the event, so it cannot be cancelled. `unknown`: no delayed event has this id.
 */
export type Cancellation = 'cancelled' | 'due' | 'ordered' | 'unknown'
