import { shrink } from '../support/shrink.ts'
import type { Bed } from './bed.ts'
import { Children } from './children.ts'
import { generate } from './generate.ts'
import type { Violation } from './judge/violation.ts'
import { kindsFor, kindsOf } from './kinds.ts'
import { print } from './print.ts'
import type { Program, StoreName } from './program.ts'
import { smallerThan } from './smaller-programs.ts'
import { Steadiness } from './steadiness.ts'
import { tryProgram, type Verdict, type Where } from './trial.ts'

export interface RunOptions {
  readonly programs: number
  readonly seed: number
  /** Programs that are played at the same time. */
  readonly lanes: number
  /** How many of the violations are shrunk and printed. */
  readonly shrinks: number
  /** Ends with the first violation. */
  readonly untilFirst: boolean
  /** The process stands still at random moments: only safety is judged. */
  readonly freezes?: boolean
  told(done: number): void
}

export interface Tally {
  programs: number
  operations: number
  readonly faults: Record<string, number>
  violations: number
  /** Plays that only came too late, while the machine stood still: they were played again. */
  heldUp: number
  /** What the first of them broke, by seed. */
  readonly broken: string[]
  /** Programs as TypeScript, with what they broke. */
  readonly printed: string[]
}

const SHRINK_ATTEMPTS = 600
const SHRINK_MS = 60_000
/** A kind that is rarer is as good as untested. */
const SHARE_MIN = 0.01
/** So many are told in words. */
const TOLD = 100
/** What depends on chance must show itself in one of so many plays. */
const PLAYS = 3

/** Plays the programs of as many seeds, several at a time. */
export async function runPrograms(bed: Bed, options: RunOptions): Promise<Tally> {
  const tally: Tally = { programs: 0, operations: 0, faults: {}, violations: 0, heldUp: 0, broken: [], printed: [] }
  for (const kind of kindsFor(bed.store)) tally.faults[kind] = 0
  const children = bed.address && new Children(bed.address)
  const broken: Broken[] = []
  const { freezes = false } = options
  const steadiness = new Steadiness(() => bed.probe())
  const play = async (index: number, program: Program): Promise<Verdict> => {
    for (let plays = 1; ; plays++) {
      const from = performance.now()
      const verdict = await tryProgram({ bed, lane: index, children, freezes }, program)
      if (plays === PLAYS || !isOnlyLate(verdict) || !steadiness.heldUpSince(from)) return verdict
      tally.heldUp++
    }
  }
  let next = options.seed
  const lane = async (index: number): Promise<void> => {
    while (next < options.seed + options.programs) {
      if (options.untilFirst && broken.length > 0) return
      const program = generate(next++, bed.store)
      const verdict = await play(index, program)
      count(tally, verdict)
      if (verdict.violations.length > 0) {
        broken.push({ program, verdict, lane: index })
        if (tally.broken.length < TOLD)
          tally.broken.push(`seed ${program.seed}: ${wordsOf(verdict.violations).join('; ')}`)
      }
      options.told(tally.programs)
    }
  }
  try {
    await Promise.all(Array.from({ length: options.lanes }, (_, index) => lane(index)))
    for (const { program, verdict, lane } of differing(broken).slice(0, options.shrinks))
      tally.printed.push(await smallest({ bed, lane, children, freezes }, program, verdict))
  } finally {
    steadiness.close()
    await children?.close()
  }
  return tally
}

/** Nothing is wrong but that a deadline passed. */
function isOnlyLate({ violations }: Verdict): boolean {
  return violations.length > 0 && violations.every(({ text }) => text.includes('ONCE_DEADLINE'))
}

interface Broken {
  readonly program: Program
  readonly verdict: Verdict
  readonly lane: number
}

/** One of each: what differs in its numbers alone is the same. */
function differing(broken: readonly Broken[]): Broken[] {
  const byText = new Map<string, Broken>()
  for (const one of broken) {
    const [first] = one.verdict.violations
    const text = first?.text.replaceAll(/\d+|shop|bank|twin/g, '') ?? ''
    if (!byText.has(text)) byText.set(text, one)
  }
  return [...byText.values()]
}

function count(tally: Tally, { history, violations }: Verdict): void {
  tally.programs++
  tally.operations += history.calls.filter(({ calm }) => !calm).length
  for (const kind of kindsOf(history)) if (kind in tally.faults) tally.faults[kind]!++
  if (violations.length > 0) tally.violations++
}

/** Shrunk, as far as it breaks the same promise when it is played alone. */
async function smallest(where: Where, program: Program, verdict: Verdict): Promise<string> {
  const rules = new Set(verdict.violations.map(({ rule }) => rule))
  let last = verdict
  const breaks = async (candidate: Program): Promise<boolean> => {
    for (let play = 0; play < PLAYS; play++) {
      const again = await tryProgram(where, candidate)
      if (!again.violations.some(({ rule }) => rules.has(rule))) continue
      last = again
      return true
    }
    return false
  }
  const small = await shrink(program, { smallerThan, isWrong: breaks, attempts: SHRINK_ATTEMPTS, forMs: SHRINK_MS })
  return print(small, { title: last.title, store: where.bed.store, wrong: wordsOf(last.violations) })
}

export function wordsOf(violations: readonly Violation[]): string[] {
  return violations.map(({ rule, text }) => `${rule}: ${text}`)
}

/** Kinds that fewer than one in a hundred programs met. */
export function rareKinds(store: StoreName, { faults, programs }: Tally): string[] {
  return kindsFor(store).filter((kind) => (faults[kind] ?? 0) < programs * SHARE_MIN)
}
