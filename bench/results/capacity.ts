import type { CapacityReport } from '../capacity/report.ts'
import type { Report } from '../report.ts'
import type { Cost } from '../support/costs.ts'
import { sumOf, type Cpu } from '../support/cpu.ts'
import type { Results } from './results.ts'
import { markdownTable, twoDecimals, whole } from './table.ts'

const NOT_YET = 'Nothing is measured yet.'
/** How much of a server's processor time operations may use: many cores wait for each other more. */
const SERVERS = [
  { cores: 4, share: 0.7 },
  { cores: 16, share: 0.6 },
  { cores: 64, share: 0.5 },
] as const
const DAY = 86_400
const KEPT_DAYS = 8

interface Unit {
  readonly name: string
  readonly cpu: Cpu
  readonly cost: Cost | undefined
}

/** What stands on docs/capacity.md between its comments. */
export function capacityBlocks({ runs, capacity }: Results): Record<string, string> {
  const [runName, run] = Object.entries(runs).findLast(([, { http }]) => http['fastify']) ?? []
  const units = run ? unitsOf(run) : []
  return {
    units:
      units.length > 0 ? `From ${runName}, through HTTP on Fastify, one event each:\n\n${unitTable(units)}` : NOT_YET,
    sizes: capacity ? sizeTable(capacity) : NOT_YET,
    carries: units.length > 0 && capacity ? carryTable(units, capacity) : NOT_YET,
    run: capacity ? runText(capacity) : NOT_YET,
  }
}

function unitsOf({ http }: Report): Unit[] {
  const found = http['fastify']
  const names = {
    atomic: 'fastify.atomicEvent',
    batched: 'fastify.batchedEvent',
    'replay from the database': 'fastify.replayDatabase',
  }
  return Object.entries(names).flatMap(([name, key]) => {
    const cpu = found?.cpu?.[key]
    return cpu ? [{ name, cpu, cost: found?.costs?.[key] }] : []
  })
}

function unitTable(units: readonly Unit[]): string {
  const rows = units.map(({ name, cpu, cost }) => [
    name,
    whole(cpu.process),
    whole(cpu.server),
    whole(cost?.walBytes),
    twoDecimals(cost?.trips),
    twoDecimals(cost?.rowsWritten),
  ])
  return markdownTable(['', 'process µs', 'server µs', 'WAL bytes', 'trips', 'rows'], rows)
}

function sizeTable({ tables, vacuumCpu, sweep }: CapacityReport): string {
  const rows = Object.entries(tables).map(([name, { rows: count, tableBytes, indexBytes }]) => [
    `\`${name}\``,
    whole(count),
    whole(tableBytes / count),
    whole(indexBytes / count),
  ])
  return [
    markdownTable(['table', 'rows', 'bytes per row', 'index bytes per row'], rows),
    '',
    `A vacuum took ${vacuumCpu.toFixed(1)} µs of CPU per operation. The sweep took ${whole(sumOf(sweep.cpu))} µs and`,
    `${whole(sweep.walBytes)} bytes of WAL per removed record.`,
  ].join('\n')
}

function carryTable(units: readonly Unit[], { tables, vacuumCpu, sweep }: CapacityReport): string {
  const bytes = Object.values(tables).reduce(
    (sum, { rows, tableBytes, indexBytes }) => sum + (tableBytes + indexBytes) / rows,
    0,
  )
  const later = vacuumCpu + sweep.cpu.server
  const rows = units
    .filter(({ cost }) => (cost?.rowsWritten ?? 0) > 0)
    .flatMap(({ name, cpu, cost }) =>
      SERVERS.map(({ cores, share }) => {
        const perSecond = (cores * share * 1e6) / (cpu.server + later)
        return [
          name,
          String(cores),
          whole(perSecond),
          whole(Math.ceil((perSecond * cpu.process) / (share * 1e6))),
          whole((perSecond * ((cost?.walBytes ?? 0) + sweep.walBytes)) / 1e6),
          whole((perSecond * DAY * KEPT_DAYS * bytes) / 1e12),
        ]
      }),
    )
  return markdownTable(
    ['', 'cores', 'operations per second', 'Node processes', 'WAL MB per second', `TB after ${KEPT_DAYS} days`],
    rows,
  )
}

function runText({ measured: m, samples, cpu, walBytes, ratios }: CapacityReport): string {
  const rows = samples.map((sample) => [
    whole(sample.operations),
    whole(sample.seconds),
    whole(sample.rate),
    whole(sample.cpu.process),
    whole(sample.cpu.server),
    sample.heapMb.toFixed(1),
    sample.rssMb.toFixed(1),
  ])
  const told = Object.entries(ratios).map(([name, value]) => `\`${name}\` is ${twoDecimals(value)}`)
  return [
    `${whole(m.operations)} batched operations with one event each, ${m.callers} callers, one process, PostgreSQL ${m.postgres},`,
    `Node ${m.node}, ${m.cores} cores, load average ${m.load} at the start. An operation took ${whole(cpu.process)} µs in the process,`,
    `${whole(cpu.server)} µs in PostgreSQL, and ${whole(walBytes)} bytes of WAL with full-page images. ${told.join(', and ')}.`,
    '',
    markdownTable(
      ['operations', 'seconds', 'per second', 'process µs', 'server µs', 'heap MB', 'RSS MB'],
      rows,
      new Set(),
    ),
  ].join('\n')
}
