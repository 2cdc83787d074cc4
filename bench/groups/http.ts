import { CASE_NAMES, CASES, type CaseName, type Framework } from '../http/cases.ts'
import { countCost, withQuietWal, type Cost } from '../support/costs.ts'
import { meterCpu, perOperation, type Cpu } from '../support/cpu.ts'
import { CALLERS, createDatabase, onServer } from '../support/database.ts'
import { startHttp } from '../support/http.ts'
import type { HttpBench } from '../support/http.ts'
import { foundAgainst } from '../support/measure.ts'
import { startWireMeter } from '../support/wire-meter.ts'
import type { Bench, Found } from './group.ts'

const WARM_UP = 2000
/** A multiple of the known keys, so that each is completed before it is counted. */
const COUNTED = 1000

/** One framework, one database: the bare handler, the ones by hand, the protected ones, and their retries. */
export async function measureHttp(bench: Bench, framework: Framework): Promise<Found> {
  const named = (name: CaseName): string => `${framework}.${name}`
  const wanted = CASE_NAMES.filter((name) => bench.wants(named(name)))
  const needed = new Set<CaseName>([...wanted.map((name) => CASES[name].base), ...wanted])
  const names = CASE_NAMES.filter((name) => needed.has(name))
  const database = `bench_${framework}`
  const url = await createDatabase(bench.serverUrl, database)
  try {
    const measured = await measureRounds(bench, await startHttp(framework, url), names)
    const found = foundAgainst(
      {
        rates: new Map([...measured.rates].map(([name, all]) => [named(name), all])),
        cpu: new Map([...measured.cpu].map(([name, all]) => [named(name), all])),
      },
      (name) => named(CASES[name.slice(framework.length + 1) as CaseName].base),
      // The bars of the textbook by hand.
      [[named('atomicEvent'), named('handEvent')]],
    )
    const costs = await withQuietWal(bench.server, () => countAll(bench, framework, url, names))
    return { ...found, costs: Object.fromEntries([...costs].map(([name, cost]) => [named(name), cost])) }
  } finally {
    await onServer(bench.serverUrl, `drop database ${database} with (force)`)
  }
}

async function measureRounds(
  { options, progress, serverUrl }: Bench,
  http: HttpBench,
  names: readonly CaseName[],
): Promise<{ rates: Map<CaseName, number[]>; cpu: Map<CaseName, Cpu[]> }> {
  const rates = new Map<CaseName, number[]>(names.map((name) => [name, []]))
  const cpu = new Map<CaseName, Cpu[]>(names.map((name) => [name, []]))
  const meter = await meterCpu(http.pid, serverUrl)
  try {
    for (const name of names) await load(http, name, { amount: WARM_UP })
    for (let round = 0; round < options.rounds; round++) {
      for (let i = 0; i < names.length; i++) {
        const name = names[(i + round) % names.length] as CaseName
        const before = meter.read()
        const result = await load(http, name, { seconds: Math.max(1, options.seconds) })
        cpu.get(name)?.push(perOperation(before, meter.read(), result.operations))
        rates.get(name)?.push(result.operations / result.seconds)
      }
      progress(`${http.client}, round ${round + 1} of ${options.rounds}`)
    }
    return { rates, cpu }
  } finally {
    await http.close()
  }
}

/** In a server of its own, whose statements go by way of the meter. */
async function countAll(
  { progress }: Bench,
  framework: Framework,
  url: string,
  names: readonly CaseName[],
): Promise<Map<CaseName, Cost>> {
  const meter = await startWireMeter(url)
  const http = await startHttp(framework, meter.url)
  const costs = new Map<CaseName, Cost>()
  try {
    for (const name of names) {
      const cost = await countCost({
        url,
        meter,
        warmUp: COUNTED,
        operations: COUNTED,
        repeat: (times) => load(http, name, { amount: times }),
        flush: () => http.flush(),
      })
      costs.set(name, cost)
    }
    progress('counted')
    return costs
  } finally {
    await http.close()
    await meter.close()
  }
}

function load(http: HttpBench, name: CaseName, much: { readonly amount: number } | { readonly seconds: number }) {
  return http.load({ path: `/${name}`, keys: CASES[name].keys, clients: CALLERS, ...much })
}
