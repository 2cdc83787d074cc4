import { invalid } from './options.ts'

/** A number with its unit, such as '30s'. A bare number is refused, because its unit would be a guess. */
export type Duration = `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const SHAPE = /^(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h|d)$/

export interface DurationLimits {
  /** The option's name, for the error. */
  option: string
  min: number
  max: number
}

/** Parses a duration into milliseconds. A value outside the limits is an error that names the option. */
export function milliseconds(value: unknown, fallback: number, limits: DurationLimits): number {
  if (value === undefined) return fallback
  const match = typeof value === 'string' ? SHAPE.exec(value) : null
  if (!match) throw invalid(`${limits.option} must be a duration such as '30s', not '${String(value).slice(0, 40)}'`)
  const ms = Math.round(Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS])
  if (ms < limits.min || ms > limits.max) {
    throw invalid(`${limits.option} must be from ${limits.min} to ${limits.max} ms, not ${match[0]}`)
  }
  return ms
}

/** Formats a duration for people, such as '2d', in the largest unit that fits. `round` rounds the number. */
export function durationText(ms: number, round: (count: number) => number): string {
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (ms >= UNIT_MS[unit]) return `${round(ms / UNIT_MS[unit])}${unit}`
  }
  return `${Math.round(ms)}ms`
}
