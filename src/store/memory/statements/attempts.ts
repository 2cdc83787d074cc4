import type { AttemptEntry, Failure, Tries } from '../../inbox.ts'
import type { Work } from '../database/connection.ts'
import type { AttemptRow } from '../database/inbox-rows.ts'

const TIMELINE_MAX = 50

/** Counts the attempts before the handler runs. The returned number of unfinished attempts leaves this attempt out. */
export async function trying(work: Work, consumer: string, ids: readonly string[]): Promise<Tries[]> {
  const all: Tries[] = []
  for (const id of [...new Set(ids)].sort()) {
    const row = await change(work, { id, consumer, attempts: 1, unfinished: 1, timeline: [] }, (known) => ({
      ...known,
      attempts: known.attempts + 1,
      unfinished: known.unfinished + 1,
    }))
    all.push({ ...triesOf(row), unfinished: row.unfinished - 1 })
  }
  return all
}

/** Takes back attempts whose handler did not start. */
export async function untry({ database, tx }: Work, ids: readonly string[]): Promise<void> {
  for (const id of [...new Set(ids)].sort()) {
    const known = await database.attempts.lock(id, tx, 'update')
    if (known === undefined) continue
    const isOnly = known.attempts <= 1 && known.timeline.length === 0
    const attempts = Math.max(0, known.attempts - 1)
    const unfinished = Math.max(0, known.unfinished - 1)
    database.attempts.put(id, isOnly ? undefined : { ...known, attempts, unfinished }, tx)
  }
}

export function tries({ database, tx }: Work, ids: readonly string[]): Tries[] {
  return ids.flatMap((id) => {
    const row = database.attempts.seen(id, tx)
    return row === undefined ? [] : triesOf(row)
  })
}

/** Records failures. A long timeline keeps its first entry and its last ones. */
export async function failed(work: Work, consumer: string, failures: readonly Failure[]): Promise<Tries[]> {
  const all: Tries[] = []
  for (const { id, counted, error, fingerprint } of failures) {
    const entry: AttemptEntry = { at: Math.floor(work.database.now() / 1000), error, fingerprint }
    const more = counted ? 0 : 1
    const row = await change(work, { id, consumer, attempts: more, unfinished: 0, timeline: [entry] }, (known) => ({
      ...known,
      attempts: known.attempts + more,
      unfinished: 0,
      timeline: [...shortened(known.timeline), entry],
    }))
    all.push(triesOf(row))
  }
  return all
}

function shortened(timeline: readonly AttemptEntry[]): readonly AttemptEntry[] {
  return timeline.length < TIMELINE_MAX ? timeline : timeline.filter((_, i) => i !== 1)
}

async function change(
  { database, tx }: Work,
  fresh: AttemptRow,
  next: (known: AttemptRow) => AttemptRow,
): Promise<AttemptRow> {
  for (;;) {
    if (await database.attempts.insert(fresh.id, fresh, tx)) return fresh
    const known = await database.attempts.lock(fresh.id, tx, 'update')
    // Another transaction deleted the row while this one waited for its lock.
    if (known === undefined) continue
    const changed = next(known)
    database.attempts.put(fresh.id, changed, tx)
    return changed
  }
}

function triesOf({ id, attempts, unfinished, timeline }: AttemptRow): Tries {
  return { id, attempts: Math.max(1, attempts), unfinished, timeline }
}
