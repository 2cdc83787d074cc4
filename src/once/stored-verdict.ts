import type { SettleParams } from '../store/store.ts'
import { answerOfFinal, jsonOf } from './codec.ts'
import type { Verdict } from './types.ts'

/** An operator's word as the store keeps it. */
export function storedVerdict(verdict: Verdict): SettleParams['verdict'] {
  if ('failed' in verdict) return { kind: 'failed', answer: answerOfFinal(verdict.failed) }
  if ('done' in verdict) return { kind: 'done', step: verdict.step, result: jsonOf(verdict.done, 'the verdict') }
  return { kind: 'rerun', step: verdict.step }
}
