import type { Mutation } from './sites.ts'

/** A change that no test can see, and why. */
export interface Equivalent {
  readonly file: string
  readonly from: string
  readonly to: string
  readonly why: string
}

/** Looked at by a person. `from` is as the file has it: a change of the line takes the entry away. */
export const EQUIVALENT: readonly Equivalent[] = []

export function equivalentTo({ file, from, to }: Mutation): Equivalent | undefined {
  return EQUIVALENT.find((known) => known.file === file && known.from === from && known.to === to)
}
