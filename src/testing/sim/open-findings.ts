/**
 * A known violation that is not fixed yet. Open findings are counted separately, so that they hide no new violation.
 */
export interface Finding {
  readonly name: string
  readonly matches: RegExp
  readonly why: string
}

/** This list should be empty. Remove a finding here when you fix it. */
export const OPEN_FINDINGS: readonly Finding[] = []

export function openFindingOf(violation: string): Finding | undefined {
  return OPEN_FINDINGS.find(({ matches }) => matches.test(violation))
}
