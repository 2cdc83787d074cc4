import type { Answer } from '../lifecycle/answer.ts'
import { STEP_NAME_BYTES_MAX } from '../limits.ts'
import { invalid } from '../options.ts'
import { isName } from '../platform/storable.ts'
import type { SettleParams } from '../store/store.ts'
import { answerOfFinal, jsonOf } from './codec.ts'
import { isFinal } from './final.ts'
import { refusalName, refusalText, undoName } from './undo-record.ts'
import type { Verdict } from './types.ts'

/** An operator's verdict in its stored form. */
export function storedVerdict(verdict: Verdict): SettleParams['verdict'] {
  const said = typeof verdict === 'object' && verdict !== null ? verdict : {}
  if (!('step' in said || 'failed' in said || 'undo' in said))
    throw invalid(
      'a verdict is { step, done }, { step, rerun: true }, { step, undone }, { failed: final(…) } or { undo: final(…) }',
    )
  if ('failed' in said) return { kind: 'failed', answer: refusalOf('failed', said.failed) }
  if ('undo' in said) {
    const result = refusalText({ answer: refusalOf('undo', said.undo), undo: null })
    return { kind: 'done', step: refusalName, result }
  }
  const { step } = said
  if (!isName(step, STEP_NAME_BYTES_MAX)) throw invalid('step must be the name of a step')
  if ('done' in said) return { kind: 'done', step, result: jsonOf(said.done, 'the verdict') }
  if ('undone' in said) return { kind: 'done', step: undoName(step), result: jsonOf(said.undone, 'the verdict') }
  return { kind: 'rerun', step }
}

function refusalOf(name: string, refusal: unknown): Answer {
  if (!isFinal(refusal)) throw invalid(`${name} must be made with final()`)
  return answerOfFinal(refusal)
}
