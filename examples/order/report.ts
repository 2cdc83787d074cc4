import { MAIL_DELAY_MS, type ServiceName } from './catalogue.ts'
import type { Seen } from './customers.ts'
import { sumsOff, type Effects, type World } from './effects.ts'

export interface Line extends Effects {
  readonly order: string
  readonly status: number
  readonly requests: number
  /** The replay at the end: the same request gets the same answer. */
  readonly sameAgain: boolean
  readonly redriven: boolean
  readonly problems: readonly string[]
}

export interface Report {
  readonly ok: boolean
  readonly seed: number
  readonly kills: Readonly<Record<ServiceName, number>>
  /** Deliveries that services reported before they died. Each event has three receivers. */
  readonly deliveries: number
  readonly published: number
  readonly resent: number
  /** Orders with a dead letter. */
  readonly parked: number
  readonly redriven: number
  readonly seconds: number
  readonly lines: readonly Line[]
  readonly problems: readonly string[]
}

export type Facts = Omit<Report, 'ok' | 'lines' | 'redriven'> & {
  readonly seen: readonly { readonly first: Seen; readonly again: Seen; readonly redriven: boolean }[]
  readonly world: World
}

export function reportOf({ seen, world, problems, ...facts }: Facts): Report {
  const lines = seen.map(({ first, again, redriven }): Line => {
    const effects = world.of.get(first.order.id)
    if (!effects) throw new Error(`nothing was counted for ${first.order.id}`)
    const sameAgain = again.replayed && again.status === first.status && again.answer === first.answer
    const { status, requests } = first
    const line = { order: first.order.id, status, requests, sameAgain, redriven, ...effects }
    return { ...line, problems: problemsOf(line, first) }
  })
  const all = [
    ...problems,
    ...lines.flatMap((line) => line.problems.map((problem) => `${line.order}: ${problem}`)),
    ...sumsOff(
      world,
      seen.map(({ first }) => first.order),
    ),
  ]
  const redriven = lines.filter((line) => line.redriven).length
  return { ok: all.length === 0, ...facts, redriven, lines, problems: all }
}

function problemsOf(line: Omit<Line, 'problems'>, { order }: Seen): string[] {
  const isPaid = order.card === 'good'
  const expected = isPaid ? 1 : 0
  const status = isPaid ? 201 : 402
  const off = (['charges', 'orders', 'movements', 'mails', 'credits'] as const).flatMap((effect) =>
    line[effect] === expected ? [] : [`${effect} happened ${line[effect]} times, not ${expected}`],
  )
  if (line.couriers !== 1) off.push(`a courier was booked ${line.couriers} times, not 1`)
  const cancelled = isPaid ? 0 : 1
  if (line.cancellations !== cancelled)
    off.push(`the courier was cancelled ${line.cancellations} times, not ${cancelled}`)
  if (line.status !== status) off.push(`the customer was answered ${line.status}, not ${status}`)
  if (!line.sameAgain) off.push('a retry did not get the same answer from the record')
  if (line.mailAfterMs !== null && line.mailAfterMs < MAIL_DELAY_MS) off.push('the mail left too early')
  return off
}

const COLUMNS = [
  'order',
  'the user sees',
  'requests',
  'asked',
  'charged',
  'courier',
  'stock',
  'mails',
  'credits',
  '',
] as const

export function tableOf(report: Report): string {
  const rows = report.lines.map((line) => [
    line.order,
    line.status === 201 ? '201 paid' : line.status === 402 ? '402 declined' : 'no answer',
    String(line.requests),
    String(line.asked),
    String(line.charges),
    line.cancellations === 0 ? String(line.couriers) : `${line.couriers} cancelled`,
    line.movements === 0 ? '0' : `-${line.movements}`,
    line.mailAfterMs === null ? String(line.mails) : `${line.mails} after ${(line.mailAfterMs / 1_000).toFixed(1)} s`,
    line.redriven ? `${line.credits} redriven` : String(line.credits),
    line.problems.length === 0 ? 'once' : 'WRONG',
  ])
  const widths = COLUMNS.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i]?.length ?? 0)))
  const lineOf = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd()
  const { kills, deliveries, published, resent, parked, redriven, seconds, seed } = report
  const killed = Object.entries(kills).map(([service, times]) => `${service} ${times}`)
  return [
    lineOf(COLUMNS),
    ...rows.map(lineOf),
    '',
    `kills       ${Object.values(kills).reduce((sum, times) => sum + times, 0)}: ${killed.join(', ')}`,
    `deliveries  ${deliveries}, of ${published} events to 3 services each; ${resent} of them on purpose, once more, at the end`,
    `referrals   ${parked} failed and were parked as dead letters; ${redriven} redriven under their own ids`,
    `took        ${seconds} s, seed ${seed}`,
    '',
    ...(report.ok
      ? [`${report.lines.length} orders: each effect happened once, nothing was lost.`]
      : ['Not once:', ...report.problems.map((problem) => `  ${problem}`)]),
    '',
  ].join('\n')
}
