/** A promise the simulator saw broken, not mended yet: counted and told apart, so that nothing new hides behind it. */
export interface Finding {
  readonly name: string
  readonly matches: RegExp
  readonly why: string
}

/** Empty is how it should be. Whoever mends one removes it here. */
export const OPEN_FINDINGS: readonly Finding[] = []

export function openFindingOf(violation: string): Finding | undefined {
  return OPEN_FINDINGS.find(({ matches }) => matches.test(violation))
}
