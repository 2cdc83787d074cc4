/**
 * Events of daily operation that are not faults.
 * `versions`: half of the processes do not know one event type until the chaos phase ends.
 * `resends`: outbox consumers get every event again.
 * `imports`: dead letters of messages in delivery are imported.
 * `cancels`: delayed events are cancelled around their due time.
 * `pauses`: relays and consumers are paused, resumed and rate-limited.
 * `filters`: relays leave out one event type.
 * `erasures`: operations are erased while clients retry them.
 * `refusals`: leased operations refuse, and their steps are undone. Sometimes an operator decides that.
 */
export type Weather = 'versions' | 'resends' | 'imports' | 'cancels' | 'pauses' | 'filters' | 'erasures' | 'refusals'
