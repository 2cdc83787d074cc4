import { appendFileSync, readFileSync } from 'node:fs'
import { equivalentTo } from './equivalent.ts'
import type { Mutation } from './sites.ts'

/** `undecided`: no test that can see the change passes without it. */
export type Kind = 'killed' | 'survived' | 'undecided'
export type Verdict = { readonly kind: Kind; readonly why: string }
type Told = Pick<Mutation, 'file' | 'line' | 'mutator' | 'from' | 'to'> & { why: string }

export interface Summary {
  /** The sites that have a verdict. */
  readonly sites: number
  readonly killed: number
  readonly survived: readonly Told[]
  readonly equivalent: readonly Told[]
  readonly undecided: readonly Told[]
}

/** The verdicts, kept in a file if one is given: a run in pieces goes on where it stopped. */
export class Results {
  readonly #verdicts = new Map<string, Verdict>()
  readonly #file: string | undefined

  constructor(file?: string) {
    this.#file = file
    for (const line of file === undefined ? [] : linesOf(file)) {
      const { place, kind, why } = JSON.parse(line) as Verdict & { place: string }
      this.#verdicts.set(place, { kind, why })
    }
  }

  of(mutation: Mutation): Verdict | undefined {
    return this.#verdicts.get(placeOf(mutation))
  }

  add(mutation: Mutation, verdict: Verdict): void {
    const place = placeOf(mutation)
    this.#verdicts.set(place, verdict)
    if (this.#file !== undefined) appendFileSync(this.#file, `${JSON.stringify({ place, ...verdict })}\n`)
  }

  summary(sample: readonly Mutation[]): Summary {
    const lists: Record<Kind | 'equivalent', Told[]> = { killed: [], survived: [], equivalent: [], undecided: [] }
    for (const mutation of sample) {
      const { file, line, mutator, from, to } = mutation
      const known = equivalentTo(mutation)
      const { kind, why } = known ? { kind: 'equivalent' as const, why: known.why } : (this.of(mutation) ?? {})
      if (kind) lists[kind].push({ file, line, mutator, from, to, why: why ?? '' })
    }
    const { killed, ...others } = lists
    const sites = Object.values(lists).reduce((sum, { length }) => sum + length, 0)
    return { sites, killed: killed.length, ...others }
  }
}

/** The texts tell a change from another one at the same place after the file was edited. */
function placeOf({ file, line, start, from, to }: Mutation): string {
  return `${file}:${line} ${start} ${from} -> ${to}`
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}
