/** A promise the simulator saw broken, not mended yet: counted and told apart, so that nothing new hides behind it. */
export interface Finding {
  readonly name: string
  readonly matches: RegExp
  readonly why: string
}

/** Empty is how it should be. Whoever mends one removes it here. */
export const OPEN_FINDINGS: readonly Finding[] = [
  {
    name: 'late replay',
    matches: /^I13: .* after the answer it got had expired/,
    why: 'memory counts replayFor from the commit, the record from the claim',
  },
  {
    name: 'looking is not running',
    matches: /^T3: /,
    why: 'a duplicate is refused while the first call of its process is only reading the record',
  },
  {
    name: 'lost reply in a batch',
    matches: /^(I20: a rejection nobody handled: .*reject|I21: \d+ clients were not decided)/s,
    why: 'a connection lost behind the last effect of a batch has no culprit, and nobody is answered',
  },
]

export function openFindingOf(violation: string): Finding | undefined {
  return OPEN_FINDINGS.find(({ matches }) => matches.test(violation))
}
