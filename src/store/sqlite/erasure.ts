import { ERASED_FINGERPRINT } from '../../lifecycle/record.ts'
import type {
  Aggregate,
  ErasedEvents,
  ErasedLetters,
  ErasedOperations,
  EraseEventsParams,
  EraseLettersParams,
  EraseOperationsParams,
  Erasure,
  PendingEvent,
} from '../erasure.ts'
import { numberIn } from './letters.ts'
import { NOW } from './migrations.ts'
import { numbered } from './numbered.ts'
import type { Reader } from './reader.ts'
import type { Turn } from './turn.ts'
import type { Writer } from './writer.ts'

const { fingerprint, fingerprintVersion } = ERASED_FINGERPRINT

// Finds rows without the writer, because no index has the scope.
const WINDOW = `select w.id, w.scope = ? and w.state = 2 as meant from
  (select id, scope, state from effectively_once_record where id > ? order by id limit ?) w`
const ONE = 'select id, scope = ? and state = 2 as meant from effectively_once_record where id = ?'
// The record may have changed since it was read. It expires when it is forgotten, so that nothing renews it earlier.
const ERASE = `update effectively_once_record set fp = '${fingerprint}', fp_version = ${fingerprintVersion}, label = null,
  expires_at = forget_at where id in (select value from json_each(?)) and state = 2 and fp_version > 0 returning id`
const FRESH = `select id from effectively_once_record
  where id in (select value from json_each(?)) and state = 2 and fp_version > 0`

const MEANT = `exists (select 1 from json_each(:aggregates) g
  where g.value ->> 'type' = :type and g.value ->> 'id' = :id)`
const meant = (type: string, id: string, aggregates: string): string =>
  MEANT.replace(':aggregates', aggregates).replace(':type', type).replace(':id', id)

// Resent and skipped events count as held and as sent.
const EVENTS = numbered(`with c as (
    select min(coalesce(a.cursor, 0)) as cursor from effectively_once_shard s
      left join effectively_once_ack a on a.destination = s.destination and a.shard = s.shard where s.shard = $1
  ), w as (
    select seq, id, type, aggregatetype, aggregateid, json_type(headers, '$.erased') is 'true' as erased
      from effectively_once_event where shard = $1 and seq > $2 order by seq limit $3
  )
  select w.seq, w.id, w.type, w.aggregateid, not w.erased and ${meant('w.aggregatetype', 'w.aggregateid', '$4')} as meant,
    coalesce((select min(h.state) from effectively_once_held h where h.shard = $1 and h.seq = w.seq and h.state < 4),
      iif(w.seq > coalesce(c.cursor, 0), 0, null)) as state
  from w cross join c order by w.seq`)
const STATES: readonly PendingEvent['state'][] = ['unsent', 'waiting', 'delayed', 'parked']
const ERASE_EVENTS = `update effectively_once_event set payload = 'null',
  headers = iif(json_type(headers, '$.previous') is null, '{"erased":true}',
    json_object('erased', json('true'), 'previous', json_extract(headers, '$.previous')))
  where seq in (select value from json_each(?))`
const ERASE_HELD = 'delete from effectively_once_held where state = 4 and seq in (select value from json_each(?))'

const LETTERS = numbered(`with w as (
    select seq, id, state, type, aggregate, tenant, consumer from effectively_once_dead_letter where seq > $4 order by seq limit $5
  ), m as (
    select w.seq, w.id, w.state in (1, 2) as open, ${numberIn('w.consumer')} = $1 and (w.tenant is $2 and $2 is not null
      or ${meant(`substr(w.type, 1, instr(w.type || '.', '.') - 1)`, 'w.aggregate', '$3')}) as meant from w
  )
  select m.*, iif(m.meant, (select max(i.redrive) from effectively_once_redrive v
    join effectively_once_redrive_item i on i.redrive = v.id where v.state in (1, 2, 3) and i.letter = m.id), null) as redrive
  from m order by m.seq`)
const ERASE_LETTERS = `update effectively_once_dead_letter set state = iif(state in (1, 2), 4, state),
  settled_at = coalesce(settled_at, ${NOW}), aggregate = null, tenant = null, error = null, traceparent = null,
  timeline = '[]', causes = '[]', headers = '{}', body = '', shown = null where id in (select value from json_each(?))`
const ERASE_COPIES = `update effectively_once_redrive_item set body = null
  where body is not null and letter in (select value from json_each(?))`

/** Erasure on SQLite. With one writer, nothing changes between the statements of a turn. */
export function sqliteErasure({ writer, reader }: { writer: Writer; reader: Reader }): Erasure {
  return {
    async operations({ scope, id, after, limit, dryRun }: EraseOperationsParams): Promise<ErasedOperations> {
      // A transaction that is open now may have written a record. It has ended when this turn comes.
      if (after === null) await writer.write(() => undefined)
      const read = await (id === null ? reader.all(WINDOW, [scope, after ?? '', limit]) : reader.all(ONE, [scope, id]))
      const ids = read.filter((row) => row['meant'] === 1).map((row) => String(row['id']))
      const erased = ids.length === 0 ? 0 : await writer.write((turn) => eraseRecords(turn, ids, dryRun))
      const next = id === null && read.length === limit ? String(read.at(-1)?.['id']) : null
      return { erased, ids, busy: [], next }
    },
    events: (params) => writer.write((turn) => eraseEvents(turn, params)),
    letters: (params) => writer.write((turn) => eraseLetters(turn, params)),
  }
}

function eraseRecords(turn: Turn, found: readonly string[], dryRun: boolean): number {
  const ids = turn.all(dryRun ? FRESH : ERASE, [JSON.stringify(found)]).map((row) => row['id'])
  if (dryRun || ids.length === 0) return ids.length
  for (const table of ['answer', 'step', 'recover', 'chunk']) {
    turn.run(`delete from effectively_once_${table} where id in (select value from json_each(?))`, [
      JSON.stringify(ids),
    ])
  }
  return ids.length
}

function eraseEvents(turn: Turn, { shard, aggregates, after, limit, dryRun }: EraseEventsParams): ErasedEvents {
  const read = turn.all(EVENTS.sql, EVENTS.values([shard, after, limit, namesOf(aggregates)]))
  const found = read.filter((row) => row['meant'] === 1)
  const sent = found.filter((row) => row['state'] === null).map((row) => Number(row['seq']))
  if (!dryRun && sent.length > 0) {
    turn.run(ERASE_EVENTS, [JSON.stringify(sent)])
    turn.run(ERASE_HELD, [JSON.stringify(sent)])
  }
  const pending = found.flatMap((row): PendingEvent | [] => {
    if (row['state'] === null) return []
    const state = STATES[Number(row['state'])] as PendingEvent['state']
    return { id: String(row['id']), type: String(row['type']), aggregate: String(row['aggregateid']), state }
  })
  return { erased: sent.length, pending, next: read.length === limit ? Number(read.at(-1)?.['seq']) : null }
}

function eraseLetters(turn: Turn, params: EraseLettersParams): ErasedLetters {
  const { namespace, tenant, aggregates, after, limit, dryRun } = params
  const read = turn.all(LETTERS.sql, LETTERS.values([String(namespace), tenant, namesOf(aggregates), after, limit]))
  const found = read.filter((row) => row['meant'] === 1)
  const free = found.filter((row) => row['redrive'] === null)
  if (!dryRun && free.length > 0) {
    const ids = JSON.stringify(free.map((row) => row['id']))
    turn.run(ERASE_LETTERS, [ids])
    turn.run(ERASE_COPIES, [ids])
  }
  return {
    erased: free.length,
    discarded: free.filter((row) => row['open'] === 1).length,
    redriving: found.flatMap((row) =>
      row['redrive'] === null ? [] : { id: String(row['id']), redrive: Number(row['redrive']) },
    ),
    next: read.length === limit ? Number(read.at(-1)?.['seq']) : null,
  }
}

function namesOf(aggregates: readonly Aggregate[]): string {
  return JSON.stringify(aggregates.map(({ type, id }) => ({ type, id })))
}
