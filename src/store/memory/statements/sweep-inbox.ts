import type { SweptInbox } from '../../inbox.ts'
import type { Work } from '../database/connection.ts'
import { sameAggregate } from './redrive.ts'

/** Turns old inbox rows into marks, and deletes old marks and settled letters. It skips locked rows. */
export function sweepInbox({ database, tx }: Work, limit: number): SweptInbox {
  const now = database.now()
  const swept = { marked: 0, rows: 0, marks: 0, letters: 0 }
  for (const [id, { consumer, at }] of database.inbox.rows(tx)) {
    const of = database.consumers.seen(consumer, tx)
    if (of === undefined || swept.rows >= limit || at >= now - of.inboxForMs * 1000) continue
    if (database.inbox.locked(id, tx, 'update')) continue
    database.inbox.put(id, undefined, tx)
    swept.rows += 1
    if (of.rememberForMs <= of.inboxForMs || database.marks.locked(id, tx, 'update')) continue
    database.marks.put(id, { id, forgetAt: at + of.rememberForMs * 1000 }, tx)
    swept.marked += 1
  }
  for (const [id, { forgetAt }] of database.marks.rows(tx)) {
    if (swept.marks >= limit || forgetAt >= now || database.marks.locked(id, tx, 'update')) continue
    database.marks.put(id, undefined, tx)
    swept.marks += 1
  }
  const letters = database.letters.rows(tx)
  const parked = letters.flatMap(([, row]) => (row.state === 'parked' ? row : []))
  for (const [id, row] of letters) {
    const { consumer, state, settledAt, parkedAt } = row
    const of = database.consumers.seen(consumer, tx)
    const over = (settledAt ?? parkedAt) * 1000 < now - (of?.lettersForMs ?? 0) * 1000
    if (of === undefined || state === 'parked' || !over || swept.letters >= limit) continue
    // The parked letters behind this one need the row, because its message was not applied.
    if (state !== 'redriven' && parked.some((other) => sameAggregate(other, row))) continue
    if (database.letters.locked(id, tx, 'update')) continue
    database.letters.put(id, undefined, tx)
    swept.letters += 1
  }
  return { ...swept, finished: Math.max(swept.rows, swept.marks, swept.letters) < limit }
}
