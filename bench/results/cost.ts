import { HTTP_PEERS, QUEUE_PEERS } from '../peers/peers.ts'
import type { Found } from '../groups/group.ts'
import { baseOf } from '../groups/main.ts'
import { FRAMEWORKS } from '../http/cases.ts'
import type { Report } from '../report.ts'
import { sumOf } from '../support/cpu.ts'
import type { Results } from './results.ts'
import { markdownTable, twoDecimals, whole } from './table.ts'

const NOT_YET = 'Nothing is measured yet.'
const COLUMNS = [
  'process µs',
  'server µs',
  'sum µs',
  'to bare',
  'per second',
  'statements',
  'trips',
  'rows',
  'WAL bytes',
]

/** What stands on docs/cost.md between its comments. */
export function costBlocks(results: Results): Record<string, string> {
  const runs = Object.entries(results.runs)
  return {
    machine: machineOf(results),
    bars: barsOf(runs),
    http: runs.map(([name, run]) => httpOf(name, run)).join('\n\n') || NOT_YET,
    process: runs.map(([name, run]) => processOf(name, run)).join('\n\n') || NOT_YET,
    peers: peersOf(results),
    queues: queuesOf(results),
    missing: missingOf(results),
  }
}

function machineOf({ runs, peers }: Results): string {
  const lines = Object.entries(runs).map(
    ([name, { measured: m }]) =>
      `- ${name}: PostgreSQL ${m.postgres}, Node ${m.node}, ${m.cores} cores, ${m.callers} callers, median of ${m.rounds} rounds of ${m.seconds} s${loadOf(m.load)}.`,
  )
  if (peers) {
    const m = peers.measured
    const versions = Object.entries(peers.versions).map(([name, version]) => `\`${name}\` ${version}`)
    lines.push(
      `- The peers: PostgreSQL ${m.postgres}, Redis ${m.redis}, Node ${m.node}, ${m.cores} cores, median of ${m.rounds} rounds of ${m.seconds} s${loadOf(m.load)}.`,
      `- Versions: ${versions.join('; ')}.`,
    )
  }
  return lines.join('\n') || NOT_YET
}

/** Told because rates, and a little of the CPU too, suffer from what else a machine does. */
function loadOf(load: number | undefined): string {
  return load === undefined ? '' : `, load average ${load} at the start`
}

function barsOf(runs: readonly [string, Report][]): string {
  const names = [...new Set(runs.flatMap(([, { bars }]) => bars.map(({ ratio }) => ratio)))]
  if (names.length === 0) return NOT_YET
  const rows = names.map((ratio) => {
    const verdicts = runs.map(([, { bars }]) => bars.find((verdict) => verdict.ratio === ratio))
    const known = verdicts.find((verdict) => verdict !== undefined)
    return [
      `\`${ratio}\``,
      known?.of ?? '',
      known?.bar ?? '',
      ...verdicts.map((verdict) => (verdict ? `${figure(verdict.value)}${verdict.holds ? '' : ' (missed)'}` : '')),
    ]
  })
  return markdownTable(['ratio', 'of', 'must be', ...runs.map(([name]) => name)], rows, new Set([0, 1, 2]))
}

function figure(value: number): string {
  return Math.abs(value) >= 100 ? whole(value) : twoDecimals(value)
}

function httpOf(name: string, { http }: Report): string {
  return FRAMEWORKS.flatMap((framework) => {
    const found = http[framework]
    if (!found) return []
    const short = (key: string): string => key.slice(framework.length + 1)
    const baseOfCase = (key: string): string =>
      [`${framework}.bareEvent`, `${framework}.bare`].find((base) => found.ratios[`${key}/${base}`] !== undefined) ??
      key
    return [`### ${framework}, ${name}`, foundTable(found, baseOfCase, short)]
  }).join('\n\n')
}

function processOf(name: string, { main, sqlite, costs }: Report): string {
  const parts: string[] = []
  if (main) {
    const found = { ...main, ...(costs && { costs }) }
    parts.push(
      `### PostgreSQL in process, ${name}`,
      foundTable(found, baseOf, (key) => key),
    )
  }
  if (sqlite)
    parts.push(
      `### SQLite in process, ${name}`,
      foundTable(
        sqlite,
        () => 'sqliteBare',
        (key) => key,
      ),
    )
  return parts.join('\n\n')
}

function foundTable(found: Found, base: (name: string) => string, short: (name: string) => string): string {
  const rows = Object.keys(found.rates).map((name) => {
    const [cpu, cost] = [found.cpu?.[name], found.costs?.[name]]
    return [
      `\`${short(name)}\``,
      whole(cpu?.process),
      whole(cpu?.server),
      whole(cpu && sumOf(cpu)),
      twoDecimals(found.cpuRatios?.[`${name}/${base(name)}`]),
      whole(found.rates[name]),
      twoDecimals(cost?.statements),
      twoDecimals(cost?.trips),
      twoDecimals(cost?.rowsWritten),
      whole(cost?.walBytes),
    ]
  })
  return markdownTable(['case', ...COLUMNS], rows)
}

function peersOf({ peers }: Results): string {
  const http = peers?.http
  if (!http) return NOT_YET
  const rows = Object.entries(HTTP_PEERS).flatMap(([name, { title, base, notPromised }]) => {
    const [cpu, cost] = [http.cpu?.[name], http.costs[name]]
    if (!cpu) return []
    return [
      [
        title,
        whole(cpu.process),
        whole(cpu.server),
        whole(sumOf(cpu)),
        twoDecimals(http.cpuRatios?.[`${name}/${base}`]),
        whole(http.rates[name]),
        twoDecimals(cost?.trips),
        whole(http.redisCommands[name]),
        twoDecimals(cost?.rowsWritten),
        whole(cost?.walBytes),
        notPromised,
      ],
    ]
  })
  const heading = [
    '',
    'process µs',
    'server µs',
    'sum µs',
    'to bare',
    'per second',
    'trips',
    'Redis commands',
    'rows',
    'WAL bytes',
    'not promised',
  ]
  return markdownTable(heading, rows, new Set([0, heading.length - 1]))
}

function queuesOf({ peers }: Results): string {
  const queues = peers?.queues
  if (!queues) return NOT_YET
  const rows = Object.entries(QUEUE_PEERS).flatMap(([name, { title, notPromised }]) => {
    const found = queues[name]
    if (!found || 'missing' in found) return []
    const { publishCpu, consumeCpu, publishRate, consumeRate, cost } = found
    return [
      [
        title,
        whole(publishCpu),
        whole(consumeCpu),
        whole(publishCpu + consumeCpu),
        whole(publishRate),
        whole(consumeRate),
        twoDecimals(cost.statements),
        twoDecimals(cost.trips),
        twoDecimals(cost.rowsWritten),
        whole(cost.walBytes),
        notPromised,
      ],
    ]
  })
  const heading = [
    '',
    'publish µs',
    'consume µs',
    'sum µs',
    'published per second',
    'consumed per second',
    'statements',
    'trips',
    'rows',
    'WAL bytes',
    'not promised',
  ]
  return markdownTable(heading, rows, new Set([0, heading.length - 1]))
}

function missingOf({ peers }: Results): string {
  const queues = Object.entries(peers?.queues ?? {}).flatMap(([name, found]) =>
    'missing' in found ? [[name, found.missing] as const] : [],
  )
  const missing = [...Object.entries(peers?.http?.missing ?? {}), ...queues]
  if (missing.length === 0) return 'Every peer could be measured.'
  return missing.map(([name, why]) => `- \`${name}\`: \`${why.replaceAll('`', "'")}\`.`).join('\n')
}
