/**
 * What a year brings beside faults. `versions`: half of the processes do not know a type of event until the chaos ends;
 * `resends`: consumers of the outbox are sent everything again; `imports`: dead letters of messages that are under way are
 * imported; `cancels`: delayed events are cancelled around their time.
 */
export type Weather = 'versions' | 'resends' | 'imports' | 'cancels'
