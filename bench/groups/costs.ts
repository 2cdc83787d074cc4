import { createDatabase, onServer, openOnce, openPool } from '../support/database.ts'
import { countCost, flushStatistics, withQuietWal, type Cost } from '../support/costs.ts'
import { repeat } from '../support/measure.ts'
import { startWireMeter } from '../support/wire-meter.ts'
import type { Bench } from './group.ts'
import { MAIN, type Maker } from './main.ts'

const COUNTED = 1024
const DATABASE = 'bench_costs'

/** What one operation asks of the server, counted on the wire and by the server's own statistics. */
export async function countCosts(bench: Bench): Promise<Record<string, Cost>> {
  return withQuietWal(bench.server, () => countAll(bench))
}

async function countAll(bench: Bench): Promise<Record<string, Cost>> {
  const url = await createDatabase(bench.serverUrl, DATABASE)
  const meter = await startWireMeter(url)
  const [plain, pipelined, ours] = [openPool(meter.url), openPool(meter.url, { pipeline: true }), openPool(meter.url)]
  const once = await openOnce(ours)
  const pools = [plain, pipelined, ours]
  try {
    const costs: Record<string, Cost> = {}
    for (const name of Object.keys(MAIN).filter((name) => bench.wants(name))) {
      const scenario = await (MAIN[name] as Maker)({ plain, pipelined, once })
      costs[name] = await countCost({
        url,
        meter,
        warmUp: COUNTED,
        operations: COUNTED,
        repeat: (times) => repeat(scenario, times),
        flush: () => Promise.all(pools.map(flushStatistics)),
      })
      bench.progress(`${name} counted`)
    }
    return costs
  } finally {
    await once.close()
    await Promise.all(pools.map((pool) => pool.end()))
    await meter.close()
    await onServer(bench.serverUrl, `drop database ${DATABASE} with (force)`)
  }
}
