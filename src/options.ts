import { CodedError } from './coded-error.ts'

/** The error for an option, or an argument, that is not valid. */
export function invalid(detail: string, cause?: unknown): Error {
  return new CodedError('ONCE_OPTION_INVALID', [500, false, detail], { cause })
}

/** Refuses a misspelled option. If it were ignored, the program would run with the default. */
export function refuseUnknown(options: object | undefined, known: ReadonlySet<string>, whose: string): void {
  for (const option of Object.keys(options ?? {})) {
    if (!known.has(option)) throw invalid(`unknown option '${option.slice(0, 40)}' of ${whose}`)
  }
}

export function oneOf<T>(option: string, value: T | undefined, allowed: readonly T[], fallback: T): T {
  if (value === undefined) return fallback
  if (!allowed.includes(value)) throw invalid(`${option} must be one of ${allowed.map(String).join(', ')}`)
  return value
}

export function wholeNumber(option: string, value: unknown, max: number, min = 1): number {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return value as number
  throw invalid(`${option} must be a whole number from ${min} to ${max}`)
}

export function optionalFunction<F>(option: string, value: F | undefined): F | undefined {
  if (value !== undefined && typeof value !== 'function') throw invalid(`${option} must be a function`)
  return value
}
