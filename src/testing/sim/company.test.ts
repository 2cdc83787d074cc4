import { describe, expect, test } from 'vitest'
import type { Company } from './company.ts'
import type { FaultKind } from './fault.ts'
import { ANY } from './plan.ts'
import type { Size } from './plan.ts'
import { runSchedule } from './run.ts'
import { eventsOf } from './trace.ts'

const SEEDS = 120
const TIMEOUT_MS = 240_000

interface World {
  readonly company: Company
  readonly size?: Partial<Size>
  /** The faults that must have occurred in some of these worlds. */
  readonly faults: readonly FaultKind[]
}

const WORLDS: readonly World[] = [
  {
    company: 'meets',
    faults: [
      'statementRaises',
      'statementHangs',
      'commitRaises',
      'rowsCrossed',
      'handlerHangs',
      'transactionRolledBack',
    ],
  },
  { company: 'meets', size: { relays: true, consumers: true }, faults: ['statementRaises'] },
  { company: 'batches', faults: ['statementRaises', 'statementHangs', 'commitRaises', 'answerUnwritable'] },
  { company: 'services', size: { relays: true, consumers: true }, faults: [] },
  { company: 'neighbour', faults: [] },
]

describe.each(WORLDS)('worlds with company: $company, $size', ({ company, size, faults }) => {
  test('keep every promise, and are not empty', { timeout: TIMEOUT_MS }, async () => {
    const seen = new Map<FaultKind, number>()
    let effects = 0
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violations, trace, faults: had } = await runSchedule(seed, undefined, { ...ANY, ...size, company })
      expect(violations, `seed ${seed}`).toEqual([])
      for (const kind of faults) seen.set(kind, (seen.get(kind) ?? 0) + had[kind])
      effects += eventsOf(trace, 'commit').reduce((sum, commit) => sum + commit.effects.length, 0)
    }
    expect(faults.filter((kind) => !seen.get(kind))).toEqual([])
    expect(effects).toBeGreaterThan(SEEDS)
  })
})

test('operations meet in every way', { timeout: TIMEOUT_MS }, async () => {
  const ways = new Map<string, number>()
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { trace } = await runSchedule(seed, undefined, { ...ANY, company: 'meets' })
    for (const { through, inside } of eventsOf(trace, 'inner')) count(ways, `${through} ${inside}`)
    for (const { result } of eventsOf(trace, 'innerOutcome')) count(ways, result.is)
    for (const { plan } of eventsOf(trace, 'plan')) for (const { how } of plan.nestedCalls) count(ways, how)
  }
  const all = ['run true', 'run false', 'run null', 'join true', 'value', 'refusal', 'error']
  const hows = ['inTurn', 'all', 'settled', 'race', 'detached', 'late']
  expect([...all, ...hows].filter((way) => !ways.has(way))).toEqual([])
})

function count(ways: Map<string, number>, way: string): void {
  ways.set(way, (ways.get(way) ?? 0) + 1)
}
