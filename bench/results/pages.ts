import { barChart, type Bar } from './chart.ts'
import { capacityBlocks } from './capacity.ts'
import { costBlocks } from './cost.ts'
import type { Results } from './results.ts'
import { withBlocks } from './table.ts'
import { HTTP_PEERS } from '../peers/peers.ts'

const COST = 'docs/cost.md'
const CHART = 'docs/cost.svg'
const CAPACITY = 'docs/capacity.md'

/** Each file that is written from the results, with the text that it should have. */
export function pagesOf(results: Results, read: (path: string) => string): ReadonlyMap<string, string> {
  return new Map([
    [COST, withBlocks(read(COST), costBlocks(results))],
    [CHART, chartOf(results)],
    [CAPACITY, withBlocks(read(CAPACITY), capacityBlocks(results))],
  ])
}

function chartOf({ peers }: Results): string {
  const cpu = peers?.http?.cpu ?? {}
  const bars = Object.entries(HTTP_PEERS).flatMap(([name, { title, packageName }]): Bar[] => {
    const used = cpu[name]
    const isOurs = packageName === null && /effectively-once/.test(title)
    return used ? [{ title, process: used.process, server: used.server, isOurs }] : []
  })
  return barChart(
    'One charge through HTTP: CPU microseconds per request (less is better)',
    ['the Node process', 'PostgreSQL and Redis'],
    bars,
  )
}
