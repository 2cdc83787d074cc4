import { atomic } from '../scenarios/atomic.ts'
import { createDatabase, onServer, openOnce, openPool } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import { fill } from '../support/fill.ts'
import { measureRounds, median, ratio, shortNumber } from '../support/measure.ts'
import type { Scenario } from '../support/measure.ts'
import type { Bench } from './group.ts'

const FEW = 10_000

export interface FoundRecords {
  /** Time per operation among many records to that among few. */
  readonly ratios: Record<string, number>
  readonly latencyMs: Record<string, number>
  readonly records: Record<string, number>
}

/** Whether an operation grows slower with the number of keys that are remembered. */
export async function measureRecords(bench: Bench): Promise<FoundRecords> {
  const { records } = bench.options
  const few = await openFilled(bench, 'bench_few', FEW)
  const many = await openFilled(bench, 'bench_many', records)
  try {
    const [fewName, manyName] = [`operation${shortNumber(FEW)}`, `operation${shortNumber(records)}`]
    const scenarios: Scenario[] = [
      { ...atomic(few.once), name: fewName },
      { ...atomic(many.once), name: manyName },
    ]
    const { rates } = await measureRounds(scenarios, { ...bench.options, progress: bench.progress })
    const latencyMs = Object.fromEntries(
      scenarios.map(({ name, callers }) => [
        name,
        median((rates.get(name) ?? []).map((rate) => (callers * 1000) / rate)),
      ]),
    )
    return {
      // At the same concurrency, time per operation is the inverse of the rate.
      ratios: { [`${manyName}/${fewName}`]: ratio(rates, fewName, manyName) ?? Number.NaN },
      latencyMs,
      records: { [fewName]: FEW, [manyName]: records },
    }
  } finally {
    await few.close()
    await many.close()
    for (const name of ['bench_few', 'bench_many'])
      await onServer(bench.serverUrl, `drop database ${name} with (force)`)
  }
}

async function openFilled(
  bench: Bench,
  name: string,
  records: number,
): Promise<{ once: BenchOnce; close(): Promise<void> }> {
  const url = await createDatabase(bench.serverUrl, name)
  const pool = openPool(url)
  const once = await openOnce(pool)
  await fill(url, records, bench.progress)
  return {
    once,
    async close() {
      await once.close()
      await pool.end()
    },
  }
}
