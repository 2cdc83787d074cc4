import { checkAccountable, type Accountable } from '../dead-letter/accountable.ts'
import { milliseconds } from '../duration.ts'
import { LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, REPLAY_MS_MAX, REPLAY_MS_MIN } from '../limits.ts' // prettier-ignore
import { invalid, oneOf, optionalFunction, refuseUnknown, wholeNumber } from '../options.ts'
import { instanceOf } from '../once/instance.ts'
import { checkRate } from '../platform/rate-limit.ts'
import { isName } from '../platform/storable.ts'
import { NAME_BYTES_MAX } from './limits.ts'
import type { FindingKind, ReconciliationOptions, ReconciliationRunOptions } from './types.ts'

export interface CheckedOptions<O, T> extends Required<ReconciliationOptions<O, T>> {
  readonly lease: `${number}ms`
}

export type RunRules = Required<Pick<ReconciliationRunOptions, 'canary' | 'afterCanary' | 'rate' | 'pauseAt'>> &
  Pick<ReconciliationRunOptions, 'signal'>

const OPTIONS = new Set(['once', 'name', 'ours', 'theirs', 'key', 'compensate', 'lease', 'rememberFor'])
const RUN_OPTIONS = new Set(['by', 'why', 'canary', 'afterCanary', 'rate', 'pauseAt', 'signal', 'onProgress'])
const KINDS: readonly FindingKind[] = ['missing', 'double', 'orphaned']
const REMEMBER_FOR = '90d'
const CANARY_MAX = 1_000_000
const CANARY = 10
const RATE = 50
const PAUSE_AT = 0.2

export function checkedOptions<O, T>(options: ReconciliationOptions<O, T>): CheckedOptions<O, T> {
  if (typeof options !== 'object' || options === null) throw invalid('reconciliation() takes { once, name, ours, … }')
  refuseUnknown(options, OPTIONS, 'reconciliation()')
  const { name, compensate = {}, lease, rememberFor = REMEMBER_FOR } = options
  instanceOf(options.once)
  if (!isName(name, NAME_BYTES_MAX)) throw invalid(`name must be a string of 1 to ${NAME_BYTES_MAX} bytes`)
  for (const part of ['ours', 'theirs', 'key'] as const)
    if (typeof options[part] !== 'function') throw invalid(`${part} must be a function`)
  refuseUnknown(compensate, new Set(KINDS), 'compensate')
  milliseconds(rememberFor, 0, { option: 'rememberFor', min: REPLAY_MS_MIN, max: REPLAY_MS_MAX })
  for (const kind of KINDS) optionalFunction(`compensate.${kind}`, compensate[kind])
  return {
    ...options,
    compensate,
    lease: `${milliseconds(lease, LEASE_MS_DEFAULT, { option: 'lease', min: LEASE_MS_MIN, max: LEASE_MS_MAX })}ms`,
    rememberFor,
  }
}

export function checkedRun(options: ReconciliationRunOptions): RunRules & Accountable {
  if (typeof options !== 'object' || options === null) throw invalid('run() takes { by, why, canary, … }')
  refuseUnknown(options, RUN_OPTIONS, 'run()')
  const { canary = CANARY, afterCanary, rate = RATE, pauseAt = PAUSE_AT, signal } = options
  optionalFunction('onProgress', options.onProgress)
  if (typeof pauseAt !== 'number' || !(pauseAt >= 0 && pauseAt <= 1)) throw invalid('pauseAt must be from 0 to 1')
  return {
    ...checkAccountable(options),
    canary: wholeNumber('canary', canary, CANARY_MAX, 0),
    afterCanary: oneOf('afterCanary', afterCanary, ['go', 'pause'], 'go'),
    rate: checkRate(rate, 'compensations'),
    pauseAt,
    ...(signal ? { signal } : {}),
  }
}
