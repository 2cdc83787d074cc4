import type {
  CompleteInboxParams,
  FailedParams,
  Inbox,
  InboxItem,
  InboxSession,
  InboxState,
  ParkParams,
  Taken,
  TakeParams,
  Tries,
} from '../inbox.ts'
import { triesOf } from '../sql/inbox-rows.ts'
import type { Row } from '../store.ts'
import { appendEvents } from './event.ts'
import { sweepInbox } from './inbox-sweep.ts'
import { parkLetter, sqliteLetters } from './letters.ts'
import { NOW } from './migrations.ts'
import { numbered } from './numbered.ts'
import type { Reader } from './reader.ts'
import { sqliteSession } from './session.ts'
import type { Turn } from './turn.ts'
import type { Handles, SqlTx } from './tx.ts'
import type { Writer } from './writer.ts'

const OPEN = `insert into effectively_once_consumer (name, inbox_ms, remember_ms, letters_ms, seen_at) values (?, ?, ?, ?, ${NOW})
  on conflict (name) do update set inbox_ms = excluded.inbox_ms, remember_ms = excluded.remember_ms,
    letters_ms = excluded.letters_ms, seen_at = excluded.seen_at`
const INSERT = `insert into effectively_once_inbox (id, consumer, source, message, at) values (?, ?, ?, ?, ${NOW})
  on conflict (id) do nothing`
// One statement per message looks for the message itself (applied or marked), its letter, a parked letter of its
// aggregate, and its predecessor. A discarded predecessor blocks nothing if nothing before it does.
const LOOK = numbered(`select exists (select 1 from effectively_once_inbox where id = $1)
    or exists (select 1 from effectively_once_mark where id = $1) as applied,
  exists (select 1 from effectively_once_dead_letter where id = $1 and state <> 3) as parked,
  $2 is not null and exists (select 1 from effectively_once_dead_letter
    where consumer = $3 and source = $4 and aggregate = $2 and state = 1) as behind,
  $5 is not null and not exists (select 1 from effectively_once_inbox where id = $5)
    and not exists (select 1 from effectively_once_mark where id = $5)
    and not exists (
      with recursive chain(id) as (
        select $5 union
        select d.previous from chain c join effectively_once_dead_letter d on d.id = c.id and d.state = 4 and d.previous is not null
      )
      select 1 from chain c
      where exists (select 1 from effectively_once_inbox a where a.id = c.id)
        or exists (select 1 from effectively_once_mark m where m.id = c.id)
        or exists (select 1 from effectively_once_dead_letter d where d.id = c.id and (d.state = 2 or d.state = 4 and (d.previous is null
          or d.reason = 'orphaned' and not exists (select 1 from effectively_once_dead_letter o where o.id = d.previous))))) as early`)
const ENTRY = `json_object('at', ${NOW}, 'error', ?, 'fingerprint', ?)`
const TRIES = 'id, attempts, unfinished, timeline'
const READ_TRIES = `select ${TRIES} from effectively_once_attempt where id in (select value from json_each(?))`
const TRYING = `insert into effectively_once_attempt (id, consumer, attempts, unfinished, timeline, updated_at)
  values (?, ?, 1, 1, '[]', ${NOW})
  on conflict (id) do update set attempts = attempts + 1, unfinished = unfinished + 1, updated_at = excluded.updated_at
  returning id, attempts, unfinished - 1 as unfinished, timeline`
const UNTRY = [
  `delete from effectively_once_attempt where id = ? and attempts <= 1 and timeline = '[]'`,
  'update effectively_once_attempt set attempts = max(attempts - 1, 0), unfinished = max(unfinished - 1, 0) where id = ?',
]
const FAILED = `insert into effectively_once_attempt (id, consumer, attempts, unfinished, timeline, updated_at)
  values (?, ?, ?, 0, json_array(${ENTRY}), ${NOW})
  on conflict (id) do update set attempts = attempts + excluded.attempts, unfinished = 0, updated_at = excluded.updated_at,
    timeline = json_insert(case when json_array_length(timeline) >= 50 then json_remove(timeline, '$[1]') else timeline end,
      '$[#]', json_extract(excluded.timeline, '$[0]'))
  returning ${TRIES}`
const FORGET_TRIES = 'delete from effectively_once_attempt where id = ?'
const POSITIONS =
  'select partition, cast(next as text) as next from effectively_once_position where consumer = ? and source = ?'
const REACHED = `select 1 from effectively_once_position where consumer = ? and source = ? and partition = ?
  and next >= cast(? as integer)`
const FORGOTTEN = `select 1 from json_each(?) w where ${['inbox', 'mark', 'dead_letter']
  .map((table) => `not exists (select 1 from effectively_once_${table} x where x.id = w.value)`)
  .join(' and ')}`
const PASS = `insert into effectively_once_position (consumer, source, partition, next) values (?, ?, ?, cast(? as integer))
  on conflict (consumer, source, partition) do update set next = max(next, excluded.next)`

/** Consumers on SQLite. With one writer, no message runs elsewhere, so none is ever busy. */
export function sqliteInbox(parts: { writer: Writer; reader: Reader; handles: Handles }): Inbox<SqlTx> {
  const { writer, reader, handles } = parts
  return {
    letters: sqliteLetters({ writer, reader }),
    open: ({ consumer, inboxForMs, rememberForMs, lettersForMs }) =>
      writer.write((turn) => void turn.run(OPEN, [consumer, inboxForMs, rememberForMs, lettersForMs])),
    take: (params) => take(writer, handles, params),
    look: ({ consumer, items, redrive = false }) =>
      writer.write((turn) => items.map((item) => stateOf(look(turn, consumer, item), redrive))),
    enter: async (session, { consumer, item, redrive = false }) => {
      const turn = handles.turnOf(session.tx)
      const seen = stateOf(look(turn, consumer, item), redrive)
      return seen !== 'duplicate' && seen !== 'parked' && insert(turn, consumer, item)
    },
    tries: async ({ ids }) => (await reader.all(READ_TRIES, [JSON.stringify(ids)])).map(triesOf),
    trying: ({ consumer, ids }) =>
      writer.write((turn) => ids.flatMap((id) => turn.all(TRYING, [id, consumer]).map(triesOf))),
    untry: ({ ids }) =>
      writer.write((turn) => {
        for (const id of ids) for (const sql of UNTRY) turn.run(sql, [id])
      }),
    failed: (params) => writer.write((turn) => fail(turn, params)),
    park: (params) => writer.write((turn) => park(turn, params)),
    positions: async ({ consumer, source }) =>
      (await reader.all(POSITIONS, [consumer, source])).map((row) => ({
        partition: String(row['partition']),
        next: String(row['next']),
      })),
    pass: ({ consumer, ...positions }) => writer.write((turn) => pass(turn, consumer, positions)),
    sweep: ({ limit, signal }) => sweepInbox(writer, limit, signal),
  }
}

async function take(
  writer: Writer,
  handles: Handles,
  { consumer, items, deadlineMs, redrive = false }: TakeParams,
): Promise<Taken<SqlTx>> {
  const turn = await writer.take({ deadlineMs })
  try {
    const takeAll = (): InboxState[] =>
      items.map((item) => {
        const state = stateOf(look(turn, consumer, item), redrive)
        return state === 'taken' && !insert(turn, consumer, item) ? 'duplicate' : state
      })
    const first = takeAll()
    // A duplicate is acknowledged, so the row that makes it one must be on disk.
    const again = first.some((state) => state !== 'taken') && (await turn.restart())
    const states = again ? takeAll() : first
    return { states, session: inboxSession(turn, handles) }
  } catch (error) {
    await turn.rollback()
    throw error
  }
}

function inboxSession(turn: Turn, handles: Handles): InboxSession<SqlTx> {
  return {
    session: sqliteSession(turn, handles),
    complete: async (params) => {
      if (turn.rolledBack) return 'rolledBack'
      try {
        complete(turn, params)
        return await turn.commit()
      } finally {
        await turn.rollback()
      }
    },
    rollback: () => turn.rollback(),
  }
}

function complete(turn: Turn, { consumer, events, tried, positions }: CompleteInboxParams): void {
  appendEvents(turn, events)
  for (const id of tried) turn.run(FORGET_TRIES, [id])
  pass(turn, consumer, positions)
}

function insert(turn: Turn, consumer: string, { id, source, message }: InboxItem): boolean {
  return turn.run(INSERT, [id, consumer, source, message]) === 1
}

function fail(turn: Turn, { consumer, failures }: FailedParams): Tries[] {
  return failures.flatMap(({ id, counted, error, fingerprint }) =>
    turn.all(FAILED, [id, consumer, counted ? 0 : 1, error, fingerprint]).map(triesOf),
  )
}

/** This turn holds the writer, so no other turn runs one of these messages. */
function park(turn: Turn, { consumer, letters, positions }: ParkParams): readonly string[] {
  for (const letter of letters) parkLetter(turn, consumer, letter)
  for (const { id } of letters) turn.run(FORGET_TRIES, [id])
  pass(turn, consumer, positions)
  return []
}

function pass(turn: Turn, consumer: string, positions: CompleteInboxParams['positions']): void {
  for (const { partition, next, from, witnesses = [] } of positions?.positions ?? []) {
    const place = [consumer, positions?.source ?? '', partition]
    if (from !== undefined && turn.all(REACHED, [...place, from]).length === 0) continue
    if (witnesses.length > 0 && turn.all(FORGOTTEN, [JSON.stringify(witnesses)]).length > 0) continue
    turn.run(PASS, [...place, next])
  }
}

function look(turn: Turn, consumer: string, { id, aggregate, source, previous }: InboxItem): Row | undefined {
  return turn.all(LOOK.sql, LOOK.values([id, aggregate, consumer, source, previous]))[0]
}

function stateOf(row: Row | undefined, redrive: boolean): InboxState {
  if (Number(row?.['applied'])) return 'duplicate'
  if (!redrive && Number(row?.['parked'])) return 'parked'
  if (!redrive && Number(row?.['behind'])) return 'behind'
  return Number(row?.['early']) ? 'early' : 'taken'
}
