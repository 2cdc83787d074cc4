/** What is promised at a place where a check failed, by the name of the call or the label of the boundary. */
const HINTS: readonly { readonly at: RegExp; readonly hint: string }[] = [
  {
    at: /^outbox\.|^relay:/,
    hint: 'A relay sends each event at least once, so a sink must ignore an event id that it has seen, and an effect of a consumer must go through tx',
  },
  {
    at: /^inbox\.|^consumer:/,
    hint: 'A message runs again until its inbox row commits, so its effect must go through tx, or through a step with a key',
  },
  {
    at: /^leases\.|^(?:claim|take over|intent|result)\b|of step/,
    hint: 'A step runs again if its process died before the result was stored, so pass its key to the provider',
  },
  { at: /^(?:begin|complete|commit)\b/, hint: 'Only what goes through tx commits with the key' },
]

/** A sentence for the report. Empty: there is nothing to say about this place. */
export function hintAt(places: readonly string[]): string {
  const found = HINTS.find(({ at }) => places.some((place) => at.test(place)))
  return found ? `. ${found.hint}` : ''
}
