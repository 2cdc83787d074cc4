import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqlite } from '../scenarios/sqlite.ts'
import { meterCpu } from '../support/cpu.ts'
import { foundAgainst, measureRounds } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'

export async function measureSqlite(bench: Bench): Promise<Found> {
  const directory = await mkdtemp(join(tmpdir(), 'effectively-once-bench-'))
  const { scenarios, close } = await openSqlite(directory)
  try {
    const meter = await meterCpu(process.pid, null)
    const measured = await measureRounds(scenarios, { ...bench.options, cpu: meter, progress: bench.progress })
    return foundAgainst(measured, () => 'sqliteBare')
  } finally {
    await close()
    await rm(directory, { recursive: true, force: true })
  }
}
