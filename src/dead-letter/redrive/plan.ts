import type { StoredPlan } from '../../store/redrives.ts'
import type { RedrivePlan } from './types.ts'
import type { TransformPreview } from './transform.ts'

/** After this time without a report, the consumer counts as not running. */
const SEEN_MS_MAX = 60_000

export function planOf(
  rows: readonly StoredPlan[],
  allowed: { readonly force: boolean; readonly reorder: boolean },
  transform: TransformPreview | null,
): RedrivePlan {
  const sum = (pick: (row: StoredPlan) => number): number => rows.reduce((total, row) => total + pick(row), 0)
  const [first] = rows
  return {
    consumer: rows.length === 1 ? (first?.consumer ?? null) : null,
    consumers: Object.fromEntries(rows.map(({ consumer, matching, behind }) => [consumer, matching + behind])),
    matching: sum(({ matching }) => matching),
    behind: sum(({ behind }) => behind),
    applied: sum(({ applied }) => applied),
    older: sum(({ older }) => older),
    reordered: sum(({ reordered }) => reordered),
    transform,
    refusals: [...refusalsOf(rows, allowed), ...transformRefusals(transform)],
    warnings: rows.length === 1 ? warningsOf(first as StoredPlan) : [],
  }
}

export function refusalsOf(
  rows: readonly StoredPlan[],
  { force, reorder }: { readonly force: boolean; readonly reorder: boolean },
): string[] {
  const [first] = rows
  if (!first) return ['no parked letter matches']
  if (rows.length > 1) {
    return [
      `letters of ${rows.length} consumers match (${rows.map(({ consumer }) => consumer).join(', ')}): name one consumer`,
    ]
  }
  const { known, consumer, older, overtaking, reordered } = first
  return [
    ...(known ? [] : [`the consumer '${consumer}' has never run here: start it once`]),
    ...(older > 0 && !force
      ? [
          `${older} letters are older than '${consumer}' remembers, and could be applied again: narrow the filter by time, or set force`,
        ]
      : []),
    ...(overtaking > 0 && !reorder
      ? [
          `${overtaking} letters of ${reordered} aggregates would overtake an earlier letter: widen the filter, or set reorder`,
        ]
      : []),
  ]
}

function warningsOf({ consumer, known, seenAgoMs }: Pick<StoredPlan, 'consumer' | 'known' | 'seenAgoMs'>): string[] {
  if (!known || (seenAgoMs !== null && seenAgoMs < SEEN_MS_MAX)) return []
  return [`no process has run the consumer '${consumer}' for a while: the redrive waits until one does`]
}

function transformRefusals(transform: TransformPreview | null): string[] {
  if (!transform || transform.failed === 0) return []
  const reason = transform.samples.find(({ error }) => error !== undefined)?.error
  return [`the transform fails for ${transform.failed} letters: ${reason ?? 'it threw'}`]
}
