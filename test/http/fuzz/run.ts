import { shrink } from '../../support/shrink.ts'
import { ADAPTERS, type Case, PROTOCOLS } from './case.ts'
import { generate } from './generate.ts'
import { closeHosts, openHosts, type Hosts } from './hosts.ts'
import type { Difference } from './judge.ts'
import { KINDS, kindsOf } from './kinds.ts'
import { print, wordsOf } from './print.ts'
import { smallerThan } from './smaller-cases.ts'
import { trialOf, tryTrial } from './trial.ts'

export interface RunOptions {
  readonly cases: number
  readonly seed: number
  /** Cases that are played at the same time. */
  readonly lanes: number
  /** How many of the differences are shrunk and printed. */
  readonly shrinks: number
  /** Ends with the first difference or death. */
  readonly untilFirst: boolean
  told(done: number): void
}

export interface Tally {
  cases: number
  differences: number
  deaths: number
  readonly adapters: Record<string, number>
  readonly protocols: Record<string, number>
  readonly kinds: Record<string, number>
  /** What the first of them were, by seed. */
  readonly told: string[]
  /** As tests. */
  readonly printed: string[]
}

/** Stores and memories of the processes grow with every case: then they are exchanged. */
const CASES_OF_A_PROCESS = 2_500
const SHRINK_ATTEMPTS = 250
const SHRINK_MS = 40_000
const SHARE_MIN = 0.01
const TOLD = 40

interface Broken {
  readonly one: Case
  readonly differences: readonly Difference[]
}

/** Plays the cases of as many seeds, several at a time. */
export async function runCases(options: RunOptions): Promise<Tally> {
  const { cases, seed, lanes, shrinks, untilFirst, told } = options
  const tally: Tally = { cases: 0, differences: 0, deaths: 0, ...counters(), told: [], printed: [] }
  const broken: Broken[] = []
  const hosts = openHosts()
  const isOver = (): boolean => untilFirst && broken.length + tally.deaths > 0
  const note = (one: Case, differences: readonly Difference[]): void => {
    tally.differences++
    broken.push({ one, differences })
    if (tally.told.length < TOLD)
      tally.told.push(`seed ${one.seed} (${one.adapter}): ${wordsOf(differences).join('; ')}`)
  }
  try {
    for (let from = seed; from < seed + cases && !isOver(); from += CASES_OF_A_PROCESS) {
      const disturbed: Case[] = []
      let next = from
      const until = Math.min(from + CASES_OF_A_PROCESS, seed + cases)
      const lane = async (): Promise<void> => {
        while (next < until && !isOver()) {
          const one = generate(next++)
          const verdict = await tryTrial(hosts, trialOf(one))
          if (verdict.disturbed) disturbed.push(one)
          else if (verdict.differences.length > 0) note(one, verdict.differences)
          count(tally, one)
          told(tally.cases)
          // Who killed it is found out alone.
          if (untilFirst && disturbed.length > 0) return
        }
      }
      await Promise.all(Array.from({ length: lanes }, lane))
      for (const one of disturbed) await alone(hosts, one, tally, note)
      await closeHosts(hosts)
    }
    for (const { one, differences } of differing(broken).slice(0, shrinks))
      tally.printed.push(await smallest(hosts, one, differences))
  } finally {
    await closeHosts(hosts)
  }
  return tally
}

/** A case beside which a process died, once more by itself. */
async function alone(
  hosts: Hosts,
  one: Case,
  tally: Tally,
  note: (one: Case, differences: readonly Difference[]) => void,
): Promise<void> {
  const verdict = await tryTrial(hosts, trialOf(one))
  if (!verdict.disturbed) {
    if (verdict.differences.length > 0) note(one, verdict.differences)
    return
  }
  tally.deaths++
  const words = hosts.guarded.lastWords.split('\n').find((line) => /Error|ERR_/.test(line)) ?? ''
  const text = print(one, [{ rule: 'death', text: words }])
  if (tally.told.length < TOLD) tally.told.push(`seed ${one.seed} (${one.adapter}): death: ${words}\n${text}`)
}

/** Shrunk, as far as it breaks the same promise. */
async function smallest(hosts: Hosts, one: Case, differences: readonly Difference[]): Promise<string> {
  const rules = new Set(differences.map(({ rule }) => rule))
  let last = differences
  const differs = async (candidate: Case): Promise<boolean> => {
    const again = await tryTrial(hosts, trialOf(candidate))
    if (!again.differences.some(({ rule }) => rules.has(rule))) return false
    last = again.differences
    return true
  }
  const small = await shrink(one, { smallerThan, isWrong: differs, attempts: SHRINK_ATTEMPTS, forMs: SHRINK_MS })
  return print(small, last)
}

/** One of each: what differs in its numbers alone is the same. */
function differing(broken: readonly Broken[]): Broken[] {
  const byText = new Map<string, Broken>()
  for (const each of broken) {
    const text = `${each.one.adapter} ${wordsOf(each.differences)[0]?.replaceAll(/\d+/g, '').slice(0, 40)}`
    if (!byText.has(text)) byText.set(text, each)
  }
  return [...byText.values()]
}

function counters(): Pick<Tally, 'adapters' | 'protocols' | 'kinds'> {
  const zeros = (names: readonly string[]): Record<string, number> => Object.fromEntries(names.map((name) => [name, 0]))
  return { adapters: zeros(ADAPTERS), protocols: zeros(PROTOCOLS), kinds: zeros(KINDS) }
}

function count(tally: Tally, one: Case): void {
  tally.cases++
  tally.adapters[one.adapter]!++
  tally.protocols[one.protocol]!++
  for (const kind of kindsOf(one)) tally.kinds[kind]!++
}

/** Adapters, protocols and kinds of answers that fewer than one in a hundred cases had. */
export function rareKinds({ cases, adapters, protocols, kinds }: Tally): string[] {
  return Object.entries({ ...adapters, ...protocols, ...kinds }).flatMap(([name, count]) =>
    count < cases * SHARE_MIN ? [`${name}, in ${count} of ${cases} cases`] : [],
  )
}
