/** A broken promise. `rule` names it in a word, so that a shrunken program can be held against the same. */
export interface Violation {
  readonly rule: string
  readonly text: string
}

/** What a program may hear, and when, is a matter of time; what the database holds, and what stands behind an answer, is not. */
const SAFETY: ReadonlySet<string> = new Set(['rows', 'events', 'record', 'twice', 'answer', 'messages', 'end'])

export function isSafety({ rule }: Violation): boolean {
  return SAFETY.has(rule)
}
