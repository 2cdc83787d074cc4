import type { Verdict } from './bars.ts'
import type { FoundDelayed } from './groups/delayed.ts'
import type { Found } from './groups/group.ts'
import { BASE, baseOf } from './groups/main.ts'
import { sumOf } from './support/cpu.ts'
import type { Cost } from './support/costs.ts'
import type { FoundRecords } from './groups/records.ts'
import type { FoundRelay } from './groups/relay.ts'

export interface Report {
  readonly measured: {
    readonly quick: boolean
    readonly rounds: number
    readonly seconds: number
    readonly callers: number
    readonly postgres: string
    readonly node: string
    readonly cores: number
    /** Load average when the run began: above the number of cores, rates say little. */
    readonly load: number
  }
  readonly main?: Found
  /** By framework. */
  readonly http: Readonly<Record<string, Found>>
  readonly delayed?: FoundDelayed
  readonly sqlite?: Found
  readonly records?: FoundRecords
  readonly costs?: Record<string, Cost>
  readonly relay?: FoundRelay
  readonly consumer?: Found
  readonly bars: readonly Verdict[]
}

export function asJson(report: Report): string {
  return JSON.stringify(report, (_, value: unknown) => (typeof value === 'number' ? significant(value) : value), 2)
}

export function asTable(report: Report): string {
  const { measured } = report
  const bars = new Map(report.bars.map((verdict) => [verdict.ratio, verdict]))
  const lines = [
    `PostgreSQL ${measured.postgres} with fsync, Node ${measured.node}, ${measured.cores} cores, ${measured.callers} callers;` +
      ` median of ${measured.rounds} interleaved rounds of ${measured.seconds} s${measured.quick ? ' (quick: a look, not a measurement)' : ''}`,
  ]
  const table = (title: string, found: Found, base: (name: string) => string): void => {
    lines.push('', ...ratesTable(title, found, base, bars))
  }
  if (report.main) table('In this process', { ...report.main, ...(report.costs && { costs: report.costs }) }, baseOf)
  else if (report.costs) table('In this process', { rates: {}, ratios: {}, costs: report.costs }, baseOf)
  for (const [framework, found] of Object.entries(report.http)) {
    const bases = [`${framework}.bareEvent`, `${framework}.bare`]
    table(
      `Through HTTP, on ${framework}`,
      found,
      (name) => bases.find((base) => found.ratios[`${name}/${base}`]) ?? name,
    )
  }
  if (report.delayed) {
    const { direct, delayed } = report.delayed.roundTripMs
    const title = `The same through a network (round trip ${delayed.toFixed(2)} ms instead of ${direct.toFixed(2)} ms)`
    table(title, report.delayed, () => BASE)
  }
  if (report.sqlite) table('SQLite', report.sqlite, () => 'sqliteBare')
  if (report.consumer) table('Consumer', report.consumer, () => 'consumerSingle')
  if (report.records) {
    lines.push('', 'Records remembered')
    for (const [name, ms] of Object.entries(report.records.latencyMs))
      lines.push(`  ${pad(name)}${ms.toFixed(2).padStart(10)} ms`)
    for (const [name, value] of Object.entries(report.records.ratios))
      lines.push(`  ${pad(name)}${value.toFixed(2).padStart(10)}${barOf(bars, name)}`)
  }
  if (report.relay) {
    lines.push('', `The relay: ${report.relay.events} events to a sink that does nothing, per second`)
    for (const [name, rate] of Object.entries(report.relay.rates))
      lines.push(`  ${pad(name)}${String(Math.round(rate)).padStart(10)}${barOf(bars, name)}`)
    for (const [name, value] of Object.entries(report.relay.ratios))
      lines.push(`  ${pad(name)}${value.toFixed(2).padStart(10)}${barOf(bars, name)}`)
    lines.push(`  ${pad('dead rows')}${String(report.relay.deadRows).padStart(10)}${barOf(bars, 'relayDeadRows')}`)
    for (const [name, ms] of Object.entries(report.relay.latencyMs))
      lines.push(`  ${name.padEnd(30)}${ms.toFixed(1).padStart(10)} ms${barOf(bars, name)}`)
  }
  return lines.join('\n')
}

const COLUMNS = ['per s', 'to base', 'CPU us', '+ server', 'sum', 'to base', 'statem.', 'trips', 'rows', 'WAL']
const NAME_WIDTH = 30
const WIDTH = 9

/** Each line: the rate, the CPU of one operation, and what it asks of the server; each to its prepared base by hand. */
function ratesTable(
  title: string,
  found: Found,
  baseOf: (name: string) => string,
  bars: ReadonlyMap<string, Verdict>,
): string[] {
  const { rates, ratios, cpu = {}, cpuRatios = {}, costs = {} } = found
  const lines = [title, `${' '.repeat(NAME_WIDTH)}${COLUMNS.map((column) => column.padStart(WIDTH)).join('')}`]
  for (const name of new Set([...Object.keys(rates), ...Object.keys(costs)])) {
    const ratio = `${name}/${baseOf(name)}`
    const [own, cost] = [cpu[name], costs[name]]
    const figures = [
      whole(rates[name]),
      ratios[ratio]?.toFixed(2),
      whole(own?.process),
      whole(own?.server),
      whole(own && sumOf(own)),
      cpuRatios[ratio]?.toFixed(2),
      cost?.statements.toFixed(2),
      cost?.trips.toFixed(2),
      cost?.rowsWritten.toFixed(2),
      whole(cost?.walBytes),
    ]
    const cells = figures.map((figure) => (figure ?? '').padStart(WIDTH)).join('')
    lines.push(`  ${name.padEnd(NAME_WIDTH - 2)}${cells}${barOf(bars, ratio)}`)
  }
  for (const [ratio, value] of Object.entries(cpuRatios)) {
    const [name, base] = ratio.split('/') as [string, string]
    if (base !== baseOf(name)) lines.push(`  CPU ${ratio}: ${value.toFixed(2)}${barOf(bars, ratio)}`)
  }
  return lines
}

function whole(value: number | undefined): string | undefined {
  return value === undefined ? undefined : String(Math.round(value))
}

function barOf(bars: ReadonlyMap<string, Verdict> | undefined, name: string): string {
  const verdict = bars?.get(name)
  return verdict ? `   ${verdict.holds ? 'holds' : 'MISSED'}: ${verdict.bar}` : ''
}

function pad(name: string): string {
  return name.padEnd(20)
}

function significant(value: number): number {
  return Number(value.toPrecision(4))
}
