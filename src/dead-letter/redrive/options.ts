import { REDRIVE_CANARY_DEFAULT, REDRIVE_PAUSE_AT_DEFAULT, REDRIVE_RATE_DEFAULT } from '../../limits.ts'
import { invalid, optionalFunction, refuseUnknown } from '../../options.ts'
import { checkRate } from '../../platform/rate-limit.ts'
import type { LetterFilter } from '../../store/dead-letters.ts'
import { storedFilter } from '../dead-letters.ts'
import { checkAccountable, type Accountable } from '../accountable.ts'
import type { RedriveFilter, RedriveOptions } from './types.ts'
import { UUID } from '../../platform/uuid.ts'

const OPTIONS = new Set(['by', 'why', 'canary', 'rate', 'pauseAt', 'transform', 'force', 'reorder'])
const CANARY_MAX = 1_000_000

export interface CheckedRedrive extends Accountable {
  readonly canary: number
  readonly canaryStops: boolean
  readonly rate: number
  readonly pauseAt: number
  readonly force: boolean
  readonly reorder: boolean
}

export function checkFilter(filter: RedriveFilter): LetterFilter {
  if (typeof filter !== 'object' || filter === null) throw invalid('the filter must be an object')
  const { ids, ...rest } = filter
  if (ids === undefined) return storedFilter(rest)
  if (!Array.isArray(ids) || ids.some((id) => typeof id !== 'string' || !UUID.test(id))) {
    throw invalid('ids must be ids of dead letters')
  }
  return { ...storedFilter(rest), ids }
}

export function checkRedrive(options: RedriveOptions): CheckedRedrive {
  if (typeof options !== 'object' || options === null) throw invalid('a redrive needs { by, why }')
  refuseUnknown(options, OPTIONS, 'a redrive')
  const { canary, pauseAt = REDRIVE_PAUSE_AT_DEFAULT, transform, force = false, reorder = false } = options
  if (typeof pauseAt !== 'number' || !(pauseAt >= 0 && pauseAt <= 1)) throw invalid('pauseAt must be from 0 to 1')
  optionalFunction('transform', transform)
  if (typeof force !== 'boolean' || typeof reorder !== 'boolean')
    throw invalid('force and reorder must be true or false')
  const first = typeof canary === 'object' ? canary.letters : (canary ?? REDRIVE_CANARY_DEFAULT)
  const after = typeof canary === 'object' ? (canary.after ?? 'go') : 'go'
  if (!Number.isInteger(first) || first < 0 || first > CANARY_MAX)
    throw invalid(`canary must be a whole number from 0 to ${CANARY_MAX}`)
  if (after !== 'go' && after !== 'pause') throw invalid(`canary.after must be 'go' or 'pause'`)
  const { by, why } = checkAccountable(options)
  const canaryStops = after === 'pause'
  const rate = checkRate(options.rate ?? REDRIVE_RATE_DEFAULT, 'letters')
  return { by, why, canary: first, canaryStops, rate, pauseAt, force, reorder }
}
