import { onceError } from '../../errors.ts'
import { invariant } from '../../invariant.ts'
import type { Answer } from '../../lifecycle/answer.ts'
import type { ClaimView } from '../../lifecycle/record.ts'
import { recordOf } from '../sql/record-rows.ts'
import type { Claim, Claimed, EventRow, Row } from '../store.ts'
import { arraysOf } from './array-literal.ts'

/** The result of a claiming statement: the record that it saw, and the claim if it was won. */
export interface Shown {
  readonly view: ClaimView
  readonly claimed: Claimed | null
  readonly xid: string
  /** The answer of `view.record`, if the claim returned it. */
  readonly answer: Answer | null
}

/** Reads the text that `claim_atomic` and `lease` return: claim-function.ts. */
export function shownBy(row: Row | undefined, { replayForMs }: Pick<Claim, 'replayForMs'>): Shown {
  const text = row?.['view']
  invariant(typeof text === 'string', 'a claim returned no text')
  const fields = text.split('|')
  if (fields[0] === 't' || fields[0] === 'f') return shownBeside(fields)
  const [token = '', answerDay = dayOf(token, replayForMs), xid = String(row?.['xid'])] = fields
  return { view: WON, claimed: { token, life: token, attempt: 1, answerDay }, xid, answer: null }
}

/** The UTC day on which the answer expires. A token is the database's time in microseconds, as `expires_at` counts it. */
function dayOf(token: string, replayForMs: number): string {
  const microseconds = Number(token) + Math.round(replayForMs * 1000)
  invariant(Number.isSafeInteger(microseconds), 'a claim returned a token that is not a time')
  return new Date(Math.floor(microseconds / 1000)).toISOString().slice(0, 10)
}

/** The claim was not won. The record was read after the locks were tried, so it is current. */
function shownBeside(fields: readonly string[]): Shown {
  const row: Row = { ok: fields[0] === 't', won: fields[1] === 't' }
  for (const [i, column] of RECORD_FIELDS.entries()) row[column] = fields[i + 2] === '-' ? null : fields[i + 2]
  const [status, kept, body, ...headers] = fields.slice(RECORD_FIELDS.length + 2)
  const answer = { status, kept: kept === 't', body: body === '-' ? null : body, headers: headers.join('|') || null }
  return {
    view: viewOf(row, null, true),
    claimed: null,
    xid: '',
    answer: status === undefined ? null : answerOf(answer),
  }
}

const RECORD_FIELDS = [
  'state',
  'fp',
  'fp_version',
  'token',
  'life',
  'attempt',
  'lease_left_ms',
  'expires_in_ms',
  'forget_in_ms',
  'day',
] as const

const WON: ClaimView = { inserted: true, sameRunning: false, otherRunning: false, record: null, reread: false }

/** The result of a refusal's statement: one row of columns, read in the snapshot of the claim. */
export function refusalViewOf(row: Row | undefined): ClaimView {
  invariant(row, 'a claim statement returned no row')
  return viewOf(row, claimedOf(row), false)
}

function viewOf(row: Row, claimed: Claimed | null, reread: boolean): ClaimView {
  const ok = row['ok'] === true
  return {
    inserted: claimed !== null,
    sameRunning: !ok,
    otherRunning: ok && row['won'] !== true,
    record: claimed ? null : recordOf(row),
    reread,
  }
}

export function claimedOf(row: Row | undefined): Claimed | null {
  const token = row?.['new_token']
  if (!row || typeof token !== 'string') return null
  return {
    token,
    life: typeof row['new_life'] === 'string' ? row['new_life'] : token,
    attempt: Number(row['new_attempt'] ?? 1),
    answerDay: String(row['new_day']),
  }
}

export function answerOf(row: Row | undefined): Answer | null {
  if (!row) return null
  const body = row['body']
  return {
    status: Number(row['status']),
    headers: headersOf(row['headers']),
    body: typeof body === 'string' ? Buffer.from(body, 'base64') : null,
    kept: row['kept'] === true,
  }
}

function headersOf(text: unknown): Answer['headers'] {
  if (typeof text !== 'string') return []
  try {
    const parsed: unknown = JSON.parse(text)
    if (Array.isArray(parsed)) return parsed as Answer['headers']
  } catch (cause) {
    throw onceError('ONCE_INVARIANT', { detail: 'a stored answer has headers that cannot be read', cause })
  }
  throw onceError('ONCE_INVARIANT', { detail: 'a stored answer has headers that are not a list' })
}

/** Status, headers, body and kept, in the order of every statement that stores an answer. */
export function answerValues(answer: Answer): [number, string | null, Uint8Array | null, boolean] {
  return [
    answer.status,
    answer.headers.length === 0 ? null : JSON.stringify(answer.headers),
    answer.kept ? answer.body : null,
    answer.kept,
  ]
}

/** The values of one event, in the order of `eventSql`. */
export function eventValues(event: EventRow): (string | number)[] {
  const { shard, id, aggregateType, aggregateId, type, payload, headers } = event
  return [shard, id, aggregateType, aggregateId, type, payload, headers]
}

/** The values of many events, as seven arrays. */
export function eventArrays(events: readonly EventRow[]): string[] {
  return arraysOf(events, 'shard', 'id', 'aggregateType', 'aggregateId', 'type', 'payload', 'headers')
}
