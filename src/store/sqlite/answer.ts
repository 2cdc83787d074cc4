import type { Answer } from '../../lifecycle/answer.ts'
import { recordOf } from '../sql/record-rows.ts'
import type { CompleteParams, Held, Reading, RefuseParams, Row } from '../store.ts'
import { DAY, NEW_TIMES, RECORD, timesOf } from './record.ts'
import { appendEvents } from './event.ts'
import type { Turn } from './turn.ts'

const INSERT = `insert into effectively_once_answer (id, day, status, headers, body, kept) values (?, ?, ?, ?, ?, ?)`

/** A record without its answer cannot be replayed, but it is not expired: only expires_at decides that. */
export const READ: string = `select ${RECORD}, a.status, a.headers, a.body, a.kept
  from effectively_once_record r left join effectively_once_answer a on a.id = r.id where r.id = ?`

const READ_ANSWER = 'select status, headers, body, kept from effectively_once_answer where id = ?'

// The token decides, not the clock: a lapsed lease that no attempt took over may still complete.
const COMPLETE_LEASED = `update effectively_once_record set state = 2, lease_until = null, ${NEW_TIMES}
  where id = ? and token = cast(? as integer) and state = 1 returning ${DAY} as day`

/** The statements that complete an operation, without the commit. */
export function complete(turn: Turn, { claim, claimed, answer, events, fenced }: CompleteParams): void {
  if (!fenced) insertAnswer(turn, claim.id, claimed.answerDay, answer)
  // An error does not abort a transaction of SQLite, so we check the count and roll back ourselves.
  else if (!completeLeased(turn, { id: claim.id, token: claimed.token, claim, answer })) throw turn.loseLease()
  appendEvents(turn, events)
}

/** False: this attempt no longer holds the lease, and nothing was written. */
export function completeLeased(turn: Turn, { id, token, claim, answer }: Held & RefuseParams): boolean {
  const [row] = turn.all(COMPLETE_LEASED, [...timesOf(claim), id, token])
  if (!row) return false
  insertAnswer(turn, id, String(row['day']), answer)
  turn.run('delete from effectively_once_recover where id = ?', [id])
  return true
}

export function insertAnswer(turn: Turn, id: string, day: string, { status, headers, body, kept }: Answer): void {
  turn.run(INSERT, [id, day, status, JSON.stringify(headers), body, kept ? 1 : 0])
}

export function readAnswer(turn: Turn, id: string): Answer | null {
  const [row] = turn.all(READ_ANSWER, [id])
  return row ? answerOf(row) : null
}

export function readingOf(rows: readonly Row[]): Reading {
  const [row] = rows
  if (!row) return { record: null, answer: null }
  return { record: recordOf(row), answer: row['status'] === null ? null : answerOf(row) }
}

function answerOf(row: Row): Answer {
  return {
    status: Number(row['status']),
    headers: JSON.parse(String(row['headers'])) as Answer['headers'],
    body: row['body'] as Uint8Array | null,
    kept: row['kept'] === 1,
  }
}
