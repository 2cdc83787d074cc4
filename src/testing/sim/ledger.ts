import type { DatabaseObserver } from '../../store/memory/database/database.ts'
import type {
  AckRow,
  AnswerRow,
  DelayedRow,
  HeldRow,
  RecordRow,
  SentEventRow,
  StepRow,
} from '../../store/memory/database/rows.ts'
import type { LetterRow } from '../../store/memory/database/inbox-rows.ts'
import type { AuditRow, RedriveRow } from '../../store/memory/database/redrive-rows.ts'
import { partsOf } from '../../store/namespaced/names.ts'
import type { Change, Transaction } from '../../store/memory/database/transaction.ts'
import type { RawNote } from './observed.ts'
import { DESTINATION } from './outbox-plan.ts'
import { tagOf } from './readers.ts'
import type { CommittedEvent, Effect, Note, RecordChange } from './trace.ts'
import type { World } from './world.ts'

const decoder = new TextDecoder()
const TEXT_MAX = 300

/** Records in the trace which changes became durable, in the order of their commits. */
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
    const events: CommittedEvent[] = []
    const applied: string[] = []
    const acks: { before: AckRow | undefined; after: AckRow }[] = []
    for (const { table, key, before, after } of changes) {
      if (table === 'shard' || table === 'relay') continue
      if (table === 'ack') acks.push({ before: before as AckRow | undefined, after: after as AckRow })
      else if (table === 'held') this.held(before, after)
      else if (table === 'delayed') this.delayed(key, before, after)
      else if (table === 'event') events.push(this.event(after as SentEventRow))
      else if (table === 'applied') applied.push(this.applied(after as { event: string }))
      else if (table === 'letter') this.letter(before, after, changes)
      else if (table === 'redrive') this.redrive(before, after, changes)
      else if (table === 'audit') this.audit(after as AuditRow)
      else if (table === 'remarks') effects.push(remarkOf(after as { exec: number }))
      else if (table === 'own') effects.push(ownOf(after as { exec: number; part: string }))
      else if (table === 'record') records.push(this.recordChange(key, before, after))
      else if (table === 'effects' && after !== undefined) effects.push(this.effect(after))
      else if (table === 'step') steps.push(this.stepChange(before, after))
      else if (table === 'answer' && after !== undefined) answers.push(this.answer(after as AnswerRow))
    }
    // Held events are recorded before the cursor that passes them, so that they stay visible behind it.
    for (const { before, after } of acks) this.acked(before, after)
    const notes: Note[] = []
    for (const { op, id, token } of raw) notes.push({ op, key: world.keyOf(id), token })
    if (
      records.length +
        effects.length +
        steps.length +
        answers.length +
        notes.length +
        events.length +
        applied.length ===
      0
    )
      return
    const held = this.before(raw, records)
    world.note({ kind: 'commit', records, effects, steps, answers, notes, held, events, applied })
    for (const { token, key } of notes) {
      const before = held.find((of) => of.key === key)
      if (token !== null && before?.token !== undefined && String(before.token) !== token)
        world.happened('lateZombieWrite', key)
    }
  }

  waited(tx: Transaction, other: Transaction, what: string): void {
    const op = waitOf(what) ?? lastOp(tx)
    if (op === 'user') this.world.happened('rowsCrossed', what)
    this.world.note({ kind: 'wait', op, behind: lastOp(other), interactive: other.interactive })
  }

  private acked(before: AckRow | undefined, { destination, shard, cursor }: AckRow): void {
    if (before === undefined && isRelays(destination)) this.world.note({ kind: 'acked', shard, cursor })
  }

  private held(before: object | undefined, after: object | undefined): void {
    const row = after as HeldRow | undefined
    if (!isRelays((row ?? (before as HeldRow)).destination)) {
      if (row?.resend && !before) this.world.note({ kind: 'resent', event: this.world.outbox.nameOf(row.seq) })
      return
    }
    const event = this.world.outbox.held((row ?? (before as HeldRow)).seq, row)
    const { state = null, attempts = 0, reason = null } = row ?? {}
    this.world.note({ kind: 'held', event, state, attempts, reason })
  }

  private delayed(id: string, before: object | undefined, after: object | undefined): void {
    const { outbox, settings } = this.world
    if ((after as DelayedRow | undefined)?.state !== 'cancelled' || (before as DelayedRow).state === 'cancelled') return
    const event = outbox.cancelled(
      id,
      settings.readers.map(({ name }) => name),
    )
    this.world.note({ kind: 'cancelled', event })
  }

  private event(row: SentEventRow): CommittedEvent {
    const { outbox, settings } = this.world
    const event = outbox.commit(row)
    if (settings.table) for (const { name } of settings.readers) outbox.sent(tagOf(name, event.event))
    return event
  }

  private applied({ event }: { event: string }): string {
    this.world.outbox.consumed(event)
    this.world.outbox.applied.add(event)
    return event
  }

  private letter(before: object | undefined, after: object | undefined, changes: readonly Change[]): void {
    const row = after as LetterRow | undefined
    const { message, consumer } = row ?? (before as LetterRow)
    const event = tagOf(partsOf(consumer).name, this.world.outbox.nameOfId(message))
    if (row !== undefined) this.world.outbox.consumed(event)
    const { state = null, reason = null, attempts = 0 } = row ?? {}
    const from = (before as LetterRow | undefined)?.state ?? null
    const here = changes.some(
      ({ table, after: of }) => table === 'applied' && (of as { event: string }).event === event,
    )
    const applied = here || this.world.outbox.applied.has(event)
    this.world.note({ kind: 'letter', event, from, state, reason, attempts, applied })
  }

  private redrive(before: object | undefined, after: object | undefined, changes: readonly Change[]): void {
    const { id, state } = (after ?? before) as RedriveRow
    const from = (before as RedriveRow | undefined)?.state ?? null
    if (from === state) return
    const audited = changes.some(({ table, after: of }) => table === 'audit' && (of as AuditRow).redrive === id)
    const items = this.world.database.redriveItems.rows(null)
    const pending = items.filter(([, item]) => item.redrive === id && item.state === 'pending').length
    this.world.note({ kind: 'redrive', redrive: id, from, state, audited, pending })
  }

  private audit({ action, by, redrive }: AuditRow): void {
    this.world.note({ kind: 'audit', action, by, redrive })
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

  /** The state of the noted records just before the commit. For a changed record this is its old version. */
  private before(
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

/** An outbox consumer also reads like a relay, under a destination of its own. */
function isRelays(destination: string): boolean {
  return partsOf(destination).name === DESTINATION
}

function remarkOf({ exec }: { exec: number }): Effect {
  return { key: `remark-${exec}`, exec, part: 'remark', life: 0 }
}

function ownOf({ exec, part }: { exec: number; part: string }): Effect {
  return { key: `own-${exec}`, exec, part, life: 0 }
}

/**
 * Names a wait for the lock of a shard, for a row of the user's, or for a new namespace. Waits for claims have no name
 * here.
 */
function waitOf(what: string): string | undefined {
  if (what.startsWith('event ')) return 'append'
  if (what.startsWith('accounts ')) return 'user'
  return what.startsWith('namespace') ? 'register' : undefined
}

function lastOp(tx: Transaction): string {
  return ((tx.notes.at(-1) ?? { op: 'user' }) as RawNote).op
}
