import { hostname, userInfo } from 'node:os'
import type { RedriveFilter } from '../dead-letter/redrive/types.ts'
import type { Accountable } from '../dead-letter/accountable.ts'
import type { LetterReason, LetterState } from '../store/dead-letters.ts'
import type { Arguments, Option, Values } from './arguments.ts'
import { UsageError } from './usage.ts'

const AGES: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const STATES: readonly string[] = ['parked', 'skipped', 'redriven', 'discarded', 'any']
const REASONS: readonly string[] = ['failed', 'crashed', 'unreadable', 'unknownType', 'behind', 'orphaned', 'refused']
export const UUID: RegExp = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

/** The letters that the options name. */
export function filterOf(values: Values): RedriveFilter {
  const { consumer, source, type, aggregate, tenant, fingerprint, id } = values
  const reason = oneOf('reason', values.reason, REASONS) as LetterReason | undefined
  const state = oneOf('state', values.state, STATES) as LetterState | 'any' | undefined
  const since = timeOf('since', values.since)
  const until = timeOf('until', values.until)
  const wrong = id?.find((one) => !UUID.test(one))
  if (wrong !== undefined) throw new UsageError(`--id '${wrong.slice(0, 40)}' is not the id of a dead letter`)
  const given = { consumer, source, type, aggregate, tenant, fingerprint, reason, state, since, until, ids: id }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

/** Requires a filter, because an empty filter would match everything. */
export function chosenFilterOf(values: Values): RedriveFilter {
  const filter = filterOf(values)
  if (Object.keys(filter).length > 0) return filter
  throw new UsageError('name the letters: give --consumer, --fingerprint, --id or another filter')
}

export function accountableOf(values: Values): Accountable {
  const { why, by = whoever() } = values
  if (why === undefined || why.trim() === '') throw new UsageError('--why is needed: the audit keeps the reason')
  return { by, why }
}

export function redriveIdOf({ operand }: Arguments): number {
  if (operand !== undefined && /^[1-9]\d{0,9}$/.test(operand)) return Number(operand)
  throw new UsageError(
    `'${String(operand).slice(0, 40)}' is not the number of a redrive; try: effectively-once redrive list`,
  )
}

export function letterIdOf({ operand }: Arguments): string {
  if (operand !== undefined && UUID.test(operand)) return operand
  throw new UsageError(
    `'${String(operand).slice(0, 40)}' is not the id of a dead letter; try: effectively-once dead-letters`,
  )
}

export function numberOf(
  values: Values,
  name: Option,
  limits: { min: number; max: number; whole: boolean },
): number | undefined {
  const text = values[name]
  if (text === undefined) return undefined
  const value = typeof text === 'string' && text.trim() !== '' ? Number(text) : NaN
  const { min, max, whole } = limits
  if (value >= min && value <= max && (!whole || Number.isInteger(value))) return value
  throw new UsageError(`--${name} must be a ${whole ? 'whole ' : ''}number from ${min} to ${max}`)
}

function timeOf(name: Option, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined
  const age = /^(\d{1,9})([smhd])$/.exec(text)
  const at = age ? Date.now() - Number(age[1]) * (AGES[age[2] as string] as number) : Date.parse(text)
  if (Number.isNaN(at))
    throw new UsageError(`--${name} must be a time such as 2025-01-31T10:00:00Z, or an age such as 2h`)
  return new Date(at)
}

export function oneOf(name: Option, text: string | undefined, known: readonly string[]): string | undefined {
  if (text === undefined || known.includes(text)) return text
  throw new UsageError(`--${name} must be one of ${known.join(', ')}`)
}

function whoever(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    return `somebody@${hostname()}`
  }
}
