import { REDRIVE_PAGE, REDRIVE_SAMPLES } from '../../limits.ts'
import { invalid } from '../../options.ts'
import type { LetterFilter, StoredLetter } from '../../store/dead-letters.ts'
import type { Inbox } from '../../store/inbox.ts'
import type { Redrives } from '../../store/redrives.ts'
import { differences, type Difference } from './diff.ts'
import { eventOf, writeCopy } from '../../consumer/revive.ts'

/**
 * Changes an event before it runs again. The handler gets the returned event. To change nothing, return the same object
 * unchanged. The event's id and source must not change. The letter keeps the original message.
 */
// oxlint-disable-next-line no-explicit-any -- an event of whatever type the handler takes
export type Transform<Event = any> = (event: Event, letter: TransformedLetter) => Event | Promise<Event>

export interface TransformedLetter {
  readonly id: string
  readonly consumer: string
  readonly source: string
  readonly message: string
  readonly type: string
  readonly error: string | null
  /** The body as it arrived, for events that cannot be read. */
  readonly body: string
}

/** What a transform would do to the letters that match. */
export interface TransformPreview {
  readonly changed: number
  readonly unchanged: number
  /** Letters for which the transform throws. A run would stop there. */
  readonly failed: number
  readonly samples: readonly {
    readonly letter: string
    readonly changes: readonly Difference[]
    readonly error?: string
  }[]
}

export async function previewTransform(
  letters: Inbox<unknown>['letters'],
  filter: LetterFilter,
  transform: Transform,
  { samples = REDRIVE_SAMPLES, reveal = false }: { samples?: number | undefined; reveal?: boolean | undefined },
): Promise<TransformPreview> {
  const counts = { changed: 0, unchanged: 0, failed: 0 }
  const shown: TransformPreview['samples'][number][] = []
  for (let after = 0; ;) {
    const page = await letters.list({ filter, limit: REDRIVE_PAGE, after, blocks: false })
    for (const letter of page) {
      after = letter.seq
      try {
        const copy = await copyOf(letter, transform)
        counts[copy === null ? 'unchanged' : 'changed']++
        if (copy === null || shown.length >= samples) continue
        shown.push({
          letter: letter.id,
          changes: differences(asJson(originOf(letter)), JSON.parse(copy) as unknown, reveal),
        })
      } catch (error) {
        counts.failed++
        if (shown.length < samples) shown.push({ letter: letter.id, changes: [], error: lineOf(error) })
      }
    }
    if (page.length < REDRIVE_PAGE) return { ...counts, samples: shown }
  }
}

/** Writes the changed copies of a redrive that is being prepared. It may be repeated if its process died. */
export async function writeCopies(redrives: Redrives<never>, redrive: number, transform: Transform): Promise<number> {
  let changed = 0
  for (let after = 0; ;) {
    const items = await redrives.items({ redrive, outcomes: ['pending'], after, limit: REDRIVE_PAGE })
    const copies: { ord: number; body: string }[] = []
    for (const { ord, letter } of items) {
      after = ord
      const body = await copyOf(letter, transform)
      if (body !== null) copies.push({ ord, body })
    }
    if (copies.length > 0) await redrives.copy({ redrive, copies })
    changed += copies.length
    if (items.length < REDRIVE_PAGE) return changed
  }
}

/** JSON text of the changed event; null: nothing changed. */
async function copyOf(letter: StoredLetter, transform: Transform): Promise<string | null> {
  const event = originOf(letter)
  const { id, consumer, source, message, type, error, body } = letter
  const made: unknown = await transform(structuredClone(event), { id, consumer, source, message, type, error, body })
  const text = writeCopy(made)
  if (typeof made !== 'object' || made === null) {
    throw invalid(`the transform must return the event of letter ${id}`)
  }
  for (const name of ['id', 'source'] as const) {
    const [before, after] = [nameOf(event, name), nameOf(made, name)]
    if (before !== undefined && before !== after) throw invalid(`the transform changed the ${name} of letter ${id}`)
  }
  return text === writeCopy(event) ? null : text
}

/** The event as the handler would get it. Null: it cannot be read. */
function originOf(letter: StoredLetter): unknown {
  const read = eventOf(letter, null)
  return 'event' in read ? read.event : null
}

/** Without the values that JSON cannot express. */
function asJson(event: unknown): unknown {
  return JSON.parse(writeCopy(event)) as unknown
}

function nameOf(event: unknown, name: 'id' | 'source'): unknown {
  return typeof event === 'object' && event !== null ? (event as Record<string, unknown>)[name] : undefined
}

function lineOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] as string
}
