import { LETTER_STATES } from '../dead-letters.ts'
import type { DeadLetters, Letter, LetterFilter, LetterReason, LetterState, StoredLetter } from '../dead-letters.ts'
import { countsOf, groupOf } from '../letter-counts.ts'
import type { Row } from '../store.ts'
import { NOW } from './migrations.ts'
import { numbered } from './numbered.ts'
import type { Reader } from './reader.ts'
import type { Turn } from './turn.ts'
import type { Bindable } from './value.ts'
import type { Writer } from './writer.ts'

const PARK =
  numbered(`insert into effectively_once_dead_letter (id, source, message, type, aggregate, previous, tenant, state, reason,
    error, fingerprint, causes, body, shown, headers, traceparent, attempts, timeline, consumer, parked_at)
  select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    max($17, coalesce((select attempts from effectively_once_attempt where id = $1), 0)),
    coalesce((select timeline from effectively_once_attempt where id = $1), '[]'), $18, ${NOW}
  where not exists (select 1 from effectively_once_inbox where id = $1)
    and not exists (select 1 from effectively_once_mark where id = $1)
  on conflict (id) do nothing`)
const SETTLE = `update effectively_once_dead_letter set state = 3, settled_at = ${NOW} where id = ? and state <> 3`

// Every part of the filter is asked for by a value that is not null.
export const MATCHES = `($1 is null or d.consumer = $1) and ($2 is null or d.source = $2) and ($3 is null or d.type = $3)
  and ($4 is null or d.aggregate = $4) and ($5 is null or d.tenant = $5) and ($6 is null or d.fingerprint = $6)
  and ($7 is null or d.reason = $7) and ($8 is null or d.state in (select value from json_each($8)))
  and ($9 is null or d.id in (select value from json_each($9)))
  and ($10 is null or d.parked_at >= $10) and ($11 is null or d.parked_at < $11)`
const LIST =
  numbered(`select d.*, (select count(*) from effectively_once_dead_letter b where b.consumer = d.consumer and b.source = d.source
    and b.aggregate = d.aggregate and b.state = 1 and b.seq > d.seq) as blocks
  from effectively_once_dead_letter d where ${MATCHES} and d.seq > $12 order by d.seq limit $13`)
const COUNT = numbered(`select d.consumer, d.fingerprint, d.reason, max(d.error) as error, count(*) as count,
    min(d.parked_at) as first_at, max(d.parked_at) as last_at
  from effectively_once_dead_letter d where ${MATCHES} group by d.consumer, d.fingerprint, d.reason order by 5 desc, 1, 2`)
const DISCARD = numbered(`update effectively_once_dead_letter set state = 4, settled_at = ${NOW} where seq in
  (select d.seq from effectively_once_dead_letter d where ${MATCHES} and d.state in (1, 2) order by d.seq limit $12)`)

export function sqliteLetters({ writer, reader }: { writer: Writer; reader: Reader }): DeadLetters {
  const list: DeadLetters['list'] = async ({ filter, limit, after = 0 }) =>
    (await reader.all(LIST.sql, LIST.values([...filterValues(filter), after, limit]))).map(letterOf)
  return {
    list,
    get: async ({ id }) => (await list({ filter: { ids: [id] }, limit: 1 }))[0] ?? null,
    count: async ({ filter }) =>
      countsOf((await reader.all(COUNT.sql, COUNT.values(filterValues(filter)))).map(groupOf)),
    discard: ({ filter, limit }) =>
      writer.write((turn) => turn.run(DISCARD.sql, DISCARD.values([...filterValues(filter), limit]))),
  }
}

export function parkLetter(turn: Turn, consumer: string, letter: Letter): void {
  const { id, source, message, type, aggregate, previous, tenant, state, reason, error, fingerprint } = letter
  const { causes, body, shown, headers, traceparent, attempts } = letter
  const values = [id, source, message, type, aggregate, previous, tenant, LETTER_STATES.indexOf(state), reason, error]
  turn.run(
    PARK.sql,
    PARK.values([...values, fingerprint, causes, body, shown, headers, traceparent, attempts, consumer]),
  )
}

export function settleLetters(turn: Turn, ids: readonly string[]): void {
  for (const id of ids) turn.run(SETTLE, [id])
}

export function filterValues(filter: LetterFilter): Bindable[] {
  const { consumer, source, type, aggregate, tenant, fingerprint, reason, states, ids, from, to } = filter
  return [
    ...[consumer, source, type, aggregate, tenant, fingerprint, reason].map((value) => value ?? null),
    states ? JSON.stringify(states.map((state) => LETTER_STATES.indexOf(state))) : null,
    ids ? JSON.stringify(ids) : null,
    from ?? null,
    to ?? null,
  ]
}

export function letterOf(row: Row): StoredLetter {
  const text = (name: string): string => String(row[name])
  const maybe = (name: string): string | null => row[name] as string | null
  return {
    id: text('id'),
    seq: Number(row['seq']),
    consumer: text('consumer'),
    source: text('source'),
    message: text('message'),
    type: text('type'),
    aggregate: maybe('aggregate'),
    previous: maybe('previous'),
    tenant: maybe('tenant'),
    state: LETTER_STATES[Number(row['state'])] as LetterState,
    reason: row['reason'] as LetterReason,
    error: maybe('error'),
    fingerprint: text('fingerprint'),
    causes: text('causes'),
    body: text('body'),
    shown: maybe('shown'),
    headers: text('headers'),
    traceparent: maybe('traceparent'),
    attempts: Number(row['attempts']),
    timeline: text('timeline'),
    parkedAt: Number(row['parked_at']),
    settledAt: row['settled_at'] === null ? null : Number(row['settled_at']),
    blocks: Number(row['blocks']),
  }
}
