import { CALLERS, createDatabase } from '../support/database.ts'
import { startHttp } from '../support/http.ts'
import type { HttpBench } from '../support/http.ts'
import { meterCpu, perOperation, type Cpu, type CpuMeter } from '../support/cpu.ts'
import { median, medianCpu, ratio } from '../support/measure.ts'
import type { Bench, Found } from './group.ts'

const KEYS = 2000
const WARM_UP = 3000

/** One framework, one database: the bare handler, the protected one, and their retries. */
const SCENARIOS = {
  bareHttp: { path: '/bare', keys: 'new' },
  http: { path: '/charges', keys: 'new' },
  httpBatched: { path: '/batched', keys: 'new' },
  httpReplayDatabase: { path: '/forgetful', keys: { prefix: 'forgotten', count: KEYS } },
  httpReplayCache: { path: '/charges', keys: { prefix: 'remembered', count: KEYS } },
  /** What the framework alone does: no replay can be faster on this machine. */
  staticHttp: { path: '/static', keys: 'new' },
} as const

type Name = keyof typeof SCENARIOS

export async function measureHttp(bench: Bench): Promise<Found> {
  const http = await startHttp(await createDatabase(bench.serverUrl, 'bench_http'))
  try {
    return await measureRounds(bench, http, await meterCpu(http.pid, bench.serverUrl))
  } finally {
    await http.close()
  }
}

async function measureRounds({ options, progress }: Bench, http: HttpBench, meter: CpuMeter): Promise<Found> {
  const names = Object.keys(SCENARIOS) as Name[]
  const rates = new Map<Name, number[]>(names.map((name) => [name, []]))
  const cpu = new Map<Name, Cpu[]>(names.map((name) => [name, []]))
  // Every known key is completed here, by a multiple of their number.
  const amount = KEYS * Math.ceil((WARM_UP * Math.min(options.seconds, 1)) / KEYS)
  for (const name of names) await http.load({ ...SCENARIOS[name], clients: CALLERS, amount })
  for (let round = 0; round < options.rounds; round++) {
    for (let i = 0; i < names.length; i++) {
      const name = names[(i + round) % names.length] as Name
      const seconds = Math.max(1, options.seconds)
      const before = meter.read()
      const result = await http.load({ ...SCENARIOS[name], clients: CALLERS, seconds })
      cpu.get(name)?.push(perOperation(before, meter.read(), result.operations))
      rates.get(name)?.push(result.operations / result.seconds)
    }
    progress(`${http.client}, round ${round + 1} of ${options.rounds}`)
  }
  const found: Found = { ratios: {}, rates: {}, cpu: medianCpu(cpu) }
  for (const [name, values] of rates) {
    found.rates[name] = median(values)
    const toBare = ratio(rates, name, 'bareHttp')
    if (name !== 'bareHttp' && toBare !== undefined) found.ratios[`${name}/bareHttp`] = toBare
  }
  return found
}
