import { join } from 'node:path'
import { CASE_NAMES, CASES, type CaseName, type Framework } from '../http/cases.ts'
import { countCost, withQuietWal, type Cost } from '../support/costs.ts'
import { meterCpu } from '../support/cpu.ts'
import { CALLERS, createDatabase, onServer } from '../support/database.ts'
import { startHttp } from '../support/http.ts'
import { measureHttpRounds } from '../support/http-rounds.ts'
import { foundAgainst } from '../support/measure.ts'
import { startWireMeter } from '../support/wire-meter.ts'
import type { Bench, Found } from './group.ts'

const SERVER = join('http', 'server')
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
    const found = foundAgainst(
      await measureAll(bench, framework, url, names),
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

async function measureAll(bench: Bench, framework: Framework, url: string, names: readonly CaseName[]) {
  const http = await startHttp(SERVER, [framework, url])
  try {
    const meter = await meterCpu(http.pid, bench.serverUrl)
    const subjects = names.map((name) => ({
      name: `${framework}.${name}`,
      http,
      meter,
      path: `/${name}`,
      keys: CASES[name].keys,
    }))
    return await measureHttpRounds(subjects, { ...bench.options, progress: bench.progress })
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
  const http = await startHttp(SERVER, [framework, meter.url])
  const costs = new Map<CaseName, Cost>()
  try {
    for (const name of names) {
      const cost = await countCost({
        url,
        meter,
        warmUp: COUNTED,
        operations: COUNTED,
        repeat: (amount) => http.load({ path: `/${name}`, keys: CASES[name].keys, clients: CALLERS, amount }),
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
