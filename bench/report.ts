import type { Verdict } from './bars.ts'
import type { Cost } from './groups/costs.ts'
import type { FoundDelayed } from './groups/delayed.ts'
import type { Found } from './groups/group.ts'
import { sumOf } from './support/cpu.ts'
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
  }
  readonly ratios: Record<string, number>
  readonly rates: Record<string, number>
  readonly cpu?: Found['cpu']
  readonly http?: Found
  readonly delayed?: FoundDelayed
  readonly sqlite?: Found
  readonly records?: FoundRecords
  readonly costs?: Record<string, Cost>
  readonly relay?: FoundRelay
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
  if (report.rates['bare4']) lines.push('', ...ratesTable('One charge and one event', report, 'bare4', bars))
  if (report.http) lines.push('', ...ratesTable('The same through HTTP, on Fastify', report.http, 'bareHttp', bars))
  if (report.delayed) {
    const { direct, delayed } = report.delayed.roundTripMs
    const title = `The same through a network (round trip ${delayed.toFixed(2)} ms instead of ${direct.toFixed(2)} ms)`
    lines.push('', ...ratesTable(title, report.delayed, 'bare4'))
  }
  if (report.sqlite) lines.push('', ...ratesTable('SQLite', report.sqlite, 'sqliteBare'))
  if (report.records) {
    lines.push('', 'Records remembered')
    for (const [name, ms] of Object.entries(report.records.latencyMs))
      lines.push(`  ${pad(name)}${ms.toFixed(2).padStart(10)} ms`)
    for (const [name, value] of Object.entries(report.records.ratios))
      lines.push(`  ${pad(name)}${value.toFixed(2).padStart(10)}${barOf(bars, name)}`)
  }
  if (report.costs) {
    lines.push(
      '',
      `Per operation         ${['statements', 'trips', 'rows', 'WAL bytes'].map((title) => title.padStart(11)).join('')}`,
    )
    for (const [name, cost] of Object.entries(report.costs)) {
      const figures = [cost.statements, cost.trips, cost.rowsWritten].map((value) => value.toFixed(2).padStart(11))
      lines.push(`  ${pad(name)}${figures.join('')}${String(cost.walBytes).padStart(11)}`)
    }
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

function ratesTable(title: string, found: Found, base: string, bars?: ReadonlyMap<string, Verdict>): string[] {
  const lines = [
    `${title.padEnd(22)}${title.length > 22 ? '\n' + ' '.repeat(22) : ''}${'per second'.padStart(12)}${`to ${base}`.padStart(16)}${'CPU us'.padStart(9)}${'+ server'.padStart(9)}${'sum'.padStart(7)}${'to base'.padStart(9)}`,
  ]
  for (const [name, rate] of Object.entries(found.rates)) {
    const value = found.ratios[`${name}/${base}`]
    const shown = value === undefined ? '' : value.toFixed(2)
    lines.push(
      `  ${pad(name)}${String(Math.round(rate)).padStart(12)}${shown.padStart(16)}${cpuOf(found, name, base)}${barOf(bars, `${name}/${base}`)}`,
    )
  }
  return lines
}

/** The base's CPU by this one's: 1 is as cheap as the base, 0.5 costs twice as much. */
function cpuOf({ cpu = {} }: Found, name: string, base: string): string {
  const [own, of] = [cpu[name], cpu[base]]
  if (!own || !of) return ''
  const figures = [own.process, own.server].map((us) => String(Math.round(us)).padStart(9))
  const to = (sumOf(of) / sumOf(own)).toFixed(2)
  return `${figures.join('')}${String(Math.round(sumOf(own))).padStart(7)}${to.padStart(9)}`
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
