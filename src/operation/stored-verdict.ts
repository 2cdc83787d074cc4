import { STEP_NAME_BYTES_MAX } from '../limits.ts'
import { invalid } from '../options.ts'
import { isName } from '../platform/storable.ts'
import type { SettleParams } from '../store/store.ts'
import { answerOfFinal, jsonOf } from './codec.ts'
import { isFinal } from './final.ts'
import type { Verdict } from './types.ts'

/** An operator's verdict in its stored form. */
export function storedVerdict(verdict: Verdict): SettleParams['verdict'] {
  if (typeof verdict !== 'object' || verdict === null || !('step' in verdict || 'failed' in verdict))
    throw invalid('a verdict is { step, done }, { step, rerun: true } or { failed: final(…) }')
  if ('step' in verdict && !isName(verdict.step, STEP_NAME_BYTES_MAX)) throw invalid('step must be the name of a step')
  if ('failed' in verdict && !isFinal(verdict.failed)) throw invalid('failed must be made with final()')
  if ('failed' in verdict) return { kind: 'failed', answer: answerOfFinal(verdict.failed) }
  if ('done' in verdict) return { kind: 'done', step: verdict.step, result: jsonOf(verdict.done, 'the verdict') }
  return { kind: 'rerun', step: verdict.step }
}
