import type { Answer } from '../lifecycle/answer.ts'
import { STEP_NAME_BYTES_MAX } from '../limits.ts'
import { sha256Hex } from '../platform/sha256.ts'
import type { StoredStep } from '../store/store.ts'

/**
 * How an undo is stored. It needs no tables of its own: the refusal and every undo are steps with reserved names, so
 * they are fenced, erased and removed like steps.
 */
export const RESERVED_PREFIX = 'eo:'
/** The step whose result is the refusal. */
export const refusalName: string = `${RESERVED_PREFIX}refusal`
const UNDO_PREFIX = `${RESERVED_PREFIX}undo:`
const HASHED_PREFIX = `${RESERVED_PREFIX}undo-sha256:`

/** JSON allows white space before a value. So a marked result is read as before, by older versions too. */
const MARK = ' '

export interface RecordedRefusal {
  /** The answer that the caller gets after the undo. */
  readonly answer: Answer
  /** The steps to undo, in the order in which they began. Null: an operator refused, so the handler must show them. */
  readonly undo: readonly string[] | null
}

/**
 * The name under which the undo of a step is recorded. The key of the undo is derived from it. PostgreSQL stores no name
 * that is longer than a step's.
 */
export function undoName(step: string): string {
  const name = UNDO_PREFIX + step
  return Buffer.byteLength(name) <= STEP_NAME_BYTES_MAX ? name : HASHED_PREFIX + sha256Hex(step)
}

/** The result of a step that has an undo. */
export function markedUndoable(result: string): string {
  return MARK + result
}

export function isMarkedUndoable({ result }: StoredStep): boolean {
  return result?.startsWith(MARK) ?? false
}

export function refusalText({ answer, undo }: RecordedRefusal): string {
  const body = answer.body === null ? null : Buffer.from(answer.body).toString('base64')
  return JSON.stringify({ answer: { ...answer, body }, undo })
}

export function recordedRefusal(step: StoredStep | undefined): RecordedRefusal | null {
  if (typeof step?.result !== 'string') return null
  const { answer, undo } = JSON.parse(step.result) as {
    answer: Omit<Answer, 'body'> & { body: string | null }
    undo: readonly string[] | null
  }
  return { answer: { ...answer, body: answer.body === null ? null : Buffer.from(answer.body, 'base64') }, undo }
}

/** The handler's own steps, each with the recorded result of its undo. Undefined: it was not undone. */
export function withUndos(
  steps: readonly StoredStep[],
): readonly (StoredStep & { readonly undone: string | undefined })[] {
  const undone = new Map(steps.map(({ name, result }) => [name, result ?? 'null']))
  return steps
    .filter(({ name }) => !name.startsWith(RESERVED_PREFIX))
    .map((step) => ({ ...step, undone: undone.get(undoName(step.name)) }))
}
