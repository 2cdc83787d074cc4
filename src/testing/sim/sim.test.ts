import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { CHECKERS } from './checkers/index.ts'
import { FAULT_KINDS } from './fault.ts'
import { runSchedule } from './run.ts'

const CLI = fileURLToPath(new URL('../../../scripts/sim.ts', import.meta.url))
/** Mutants take minutes, so `npm run sim` and `.ci/run` hunt them. */
const SCHEDULES = 2_500
const PATIENCE_MS = 20 * 60_000

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

interface Summary {
  readonly schedules: number
  readonly crashes: number
  readonly faults: Readonly<Record<string, number>>
  readonly violations: number
}

function sim(...args: string[]): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--import', 'tsx', CLI, ...args])
    let out = ''
    let err = ''
    child.stdout.on('data', (data) => (out += String(data)))
    child.stderr.on('data', (data) => (err += String(data)))
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, out, err }))
  })
}

describe('the simulator', () => {
  test(`${SCHEDULES} schedules keep every promise`, { timeout: PATIENCE_MS }, async () => {
    const { code, out, err } = await sim('--schedules', String(SCHEDULES), '--seed', '1', '--no-mutants', '--json')
    const told = err.replace(/^\d+ of \d+ schedules.*\n/gm, '').slice(0, 4_000)
    const result = JSON.parse(out || '{}') as Partial<Summary>
    // `told` contains the report of the failure. The comparison includes it, so that a failed test shows it.
    expect({ violations: result.violations, told: code === 0 ? '' : told }).toEqual({ violations: 0, told: '' })
    expect(result.schedules).toBe(SCHEDULES)
    expect(result.crashes).toBeGreaterThan(SCHEDULES / 10)
    expect(FAULT_KINDS.filter((kind) => !result.faults?.[kind])).toEqual([])
  })

  test('a seed is a world: the same trace, byte for byte', async () => {
    for (const seed of [3, 17, 4_711]) {
      const [first, second] = [await runSchedule(seed), await runSchedule(seed)]
      expect(JSON.stringify(second.trace)).toBe(JSON.stringify(first.trace))
    }
  })

  test('every promise has its own number', () => {
    expect(new Set(CHECKERS.map(({ id }) => id)).size).toBe(CHECKERS.length)
  })

  test.each([
    [['--schedules', 'many'], '--schedules needs a whole number'],
    [['--schedules', '0'], '--schedules needs a whole number'],
    [['--seed'], '--seed needs a whole number'],
    [['--seeds', '1'], 'unknown argument "--seeds"'],
    [['--mutant'], '--mutant needs the name of one, or all'],
    [['--mutant', 'none'], 'no mutant is called "none"'],
  ])('%s is refused in one line', async (args, line) => {
    const { code, out, err } = await sim(...args)
    expect(code).toBe(2)
    expect(out).toBe('')
    expect(err).toContain(line)
    expect(err.trim().split('\n')).toHaveLength(1)
  })
})
