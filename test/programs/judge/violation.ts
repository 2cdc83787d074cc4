/** A broken promise. `rule` names it in a word, so that a shrunken program can be held against the same. */
export interface Violation {
  readonly rule: string
  readonly text: string
}
