import type { DatabaseObserver } from '../../store/memory/database.ts'
import type { AnswerRow, RecordRow, StepRow } from '../../store/memory/rows.ts'
import type { Change, Transaction } from '../../store/memory/transaction.ts'
import type { RawNote } from './observed.ts'
import type { Effect, Note, RecordChange } from './trace.ts'
import type { World } from './world.ts'

const decoder = new TextDecoder()
const TEXT_MAX = 300

/** Writes down what became durable, in the order in which it did. */
export class Ledger implements DatabaseObserver {
  private readonly world: World

  constructor(world: World) {
    this.world = world
  }

  committed(tx: Transaction, changes: readonly Change[]): void {
    const { world } = this
    const raw = tx.notes as readonly RawNote[]
    if (changes.length === 0 && raw.length === 0) return
    const records: RecordChange[] = []
    const effects: Effect[] = []
    const steps: { key: string; before: StepRow | null; after: StepRow | null }[] = []
    const answers: { key: string; token: number; text: string | null }[] = []
    for (const { table, key, before, after } of changes) {
      if (table === 'record') records.push(this.recordChange(key, before, after))
      else if (table === 'effects' && after !== undefined) effects.push(this.effect(after))
      else if (table === 'step') steps.push(this.stepChange(before, after))
      else if (table === 'answer' && after !== undefined) answers.push(this.answer(after as AnswerRow))
    }
    const notes: Note[] = []
    for (const { op, id, token } of raw) notes.push({ op, key: world.keyOf(id), token })
    const held = this.held(raw, records)
    world.note({ kind: 'commit', records, effects, steps, answers, notes, held })
    for (const { token, key } of notes) {
      const before = held.find((of) => of.key === key)
      if (token !== null && before?.token !== undefined && String(before.token) !== token)
        world.happened('lateZombieWrite', key)
    }
  }

  waited(tx: Transaction, other: Transaction): void {
    this.world.note({ kind: 'wait', op: lastOp(tx), behind: lastOp(other), interactive: other.interactive })
  }

  private recordChange(id: string, before: object | undefined, after: object | undefined): RecordChange {
    if (after !== undefined) this.world.executions.committed(after as RecordRow)
    return { key: this.world.keyOf(id), before: (before as RecordRow) ?? null, after: (after as RecordRow) ?? null }
  }

  private effect(row: object): Effect {
    const { key, exec, part } = row as { key: string; exec: number; part: string }
    return { key, exec, part, life: this.world.record(this.world.planOf(key).id)?.life ?? null }
  }

  private stepChange(
    before: object | undefined,
    after: object | undefined,
  ): { key: string; before: StepRow | null; after: StepRow | null } {
    const { id } = (after ?? before) as StepRow
    return { key: this.world.keyOf(id), before: (before as StepRow) ?? null, after: (after as StepRow) ?? null }
  }

  private answer({ id, token, body }: AnswerRow): { key: string; token: number; text: string | null } {
    const text = body === null ? null : decoder.decode(body)
    return { key: this.world.keyOf(id), token, text: text === null ? null : text.slice(0, TEXT_MAX) }
  }

  /** What the records of the notes were just before: a changed one by its old version. */
  private held(
    raw: readonly RawNote[],
    changed: readonly RecordChange[],
  ): { key: string; token: number | null; state: string | null }[] {
    return raw.map(({ id }) => {
      const key = this.world.keyOf(id)
      const change = changed.find((of) => of.key === key)
      const row = change === undefined ? this.world.record(id) : change.before
      return { key, token: row?.token ?? null, state: row?.state ?? null }
    })
  }
}

function lastOp(tx: Transaction): string {
  return ((tx.notes.at(-1) ?? { op: 'user' }) as RawNote).op
}
