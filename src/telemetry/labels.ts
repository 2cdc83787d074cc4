import { isOnceError } from '../errors.ts'
import { toWellFormed } from '../platform/storable.ts'
import { LABEL_LENGTH_MAX, LABEL_VALUES_MAX, METRIC_SERIES_MAX } from './limits.ts'

export type Labels = Readonly<Record<string, string | undefined>>

const OTHER = 'other'

/** One label set of one metric. */
export interface Series {
  readonly key: string
  readonly labels: Readonly<Record<string, string>>
}

/**
 * Keeps the number of label values and of label sets small, whatever routes, types and names there are. The first values
 * are counted separately, and later values as 'other'.
 */
export class LabelBounds {
  readonly #values = new Map<string, Set<string>>()
  readonly #series = new Map<string, Map<string, Series>>()

  value(label: string, value: string): string {
    const known = this.#values.get(label) ?? new Set()
    if (known.has(value)) return value
    const cut = shortened(value)
    if (known.has(cut)) return cut
    if (known.size >= LABEL_VALUES_MAX) return OTHER
    this.#values.set(label, known.add(cut))
    return cut
  }

  /** Found by the values as they are: only values that nobody has seen are looked at. */
  series(metric: string, labels: Labels): Series {
    let known = this.#series.get(metric)
    if (!known) this.#series.set(metric, (known = new Map()))
    return known.get(keyOf(labels)) ?? this.#added(known, labels)
  }

  #added(known: Map<string, Series>, labels: Labels): Series {
    const bounded: Record<string, string> = {}
    for (const label in labels) {
      const value = labels[label]
      if (value !== undefined) bounded[label] = this.value(label, value)
    }
    const found = known.get(keyOf(bounded))
    if (found) return found
    const isFull = known.size >= METRIC_SERIES_MAX
    if (isFull) for (const label in bounded) bounded[label] = OTHER
    const series = { key: keyOf(bounded), labels: bounded }
    if (!isFull) known.set(series.key, series)
    return series
  }
}

/** Cuts between characters. A character has at most two code units. */
function shortened(value: string): string {
  return Array.from(toWellFormed(value.slice(0, 2 * LABEL_LENGTH_MAX)))
    .slice(0, LABEL_LENGTH_MAX)
    .join('')
}

function keyOf(labels: Labels): string {
  let key = ''
  for (const label in labels) if (labels[label] !== undefined) key += `${label}\0${labels[label]}\0`
  return key
}

/** The code of our own errors, of Node and of databases, or the class of the error. Never its text. */
export function errorType(error: unknown): string {
  try {
    if (isOnceError(error)) return error.code
    const { code, name } = error as { code?: unknown; name?: unknown }
    if (typeof code === 'string' && /^[A-Z\d_]{2,40}$/.test(code)) return code
    if (typeof name === 'string' && /^[A-Za-z_$][\w$]{0,59}$/.test(name)) return name
  } catch {
    // Reading the error threw.
  }
  return '_OTHER'
}
