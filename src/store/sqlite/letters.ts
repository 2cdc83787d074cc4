import { LETTER_STATES } from '../dead-letters.ts'
import type { DeadLetters, Letter, LetterFilter } from '../dead-letters.ts'
import { countsOf } from '../letter-counts.ts'
import { groupOf, letterFilterValues, letterOf } from '../sql/letter-rows.ts'
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

/** The number, as text, of the namespace that a stored consumer name belongs to. See namespaced/names.ts. */
export function numberIn(column: string): string {
  const at = `instr(${column}, char(31))`
  return `case ${at} when 0 then '0' else substr(${column}, 1, ${at} - 1) end`
}

// A part of the filter counts only if its value is not null.
export const MATCHES: string = `($1 is null or d.consumer = $1) and ($2 is null or d.source = $2) and ($3 is null or d.type = $3)
  and ($4 is null or d.aggregate = $4) and ($5 is null or d.tenant = $5) and ($6 is null or d.fingerprint = $6)
  and ($7 is null or d.reason = $7) and ($8 is null or d.state in (select value from json_each($8)))
  and ($9 is null or d.id in (select value from json_each($9)))
  and ($10 is null or d.parked_at >= $10) and ($11 is null or d.parked_at < $11)
  and ($12 is null or ${numberIn('d.consumer')} = $12)`
// `blocks` counts the letters that are parked behind a letter. Each aggregate is read only once, and counted from its
// end, however many of its letters match.
const LIST = numbered(`with p as materialized (
  select d.id, d.seq, d.consumer, d.source, d.aggregate from effectively_once_dead_letter d
  where ${MATCHES} and d.seq > $13 order by d.seq limit $14
), g as materialized (
  select consumer, source, aggregate, min(seq) as first from p where aggregate is not null group by 1, 2, 3
), x as (
  select id, consumer, source, aggregate, seq, 0 as parked from p
  union all
  select null, g.consumer, g.source, g.aggregate, e.seq, 1 from g cross join effectively_once_dead_letter e
    on e.consumer = g.consumer and e.source = g.source and e.aggregate = g.aggregate and e.state = 1 and e.seq > g.first
), n as materialized (
  select id, sum(parked) over (partition by consumer, source, aggregate order by seq desc, parked rows unbounded preceding) as blocks from x
)
select d.*, n.blocks from n cross join effectively_once_dead_letter d on d.id = n.id order by d.seq`)
const READ = numbered(`select d.*, 0 as blocks from effectively_once_dead_letter d
  where ${MATCHES} and d.seq > $13 order by d.seq limit $14`)
const COUNT = numbered(`select d.consumer, d.fingerprint, d.reason, max(d.error) as error, count(*) as count,
    min(d.parked_at) as first_at, max(d.parked_at) as last_at
  from effectively_once_dead_letter d where ${MATCHES} group by d.consumer, d.fingerprint, d.reason order by 5 desc, 1, 2`)
const DISCARD = numbered(`update effectively_once_dead_letter set state = 4, settled_at = ${NOW} where seq in
  (select d.seq from effectively_once_dead_letter d where ${MATCHES} and d.state in (1, 2) order by d.seq limit $13)`)

export function sqliteLetters({ writer, reader }: { writer: Writer; reader: Reader }): DeadLetters {
  const list: DeadLetters['list'] = async ({ filter, limit, after = 0, blocks = true }) => {
    const { sql, values } = blocks ? LIST : READ
    return (await reader.all(sql, values([...filterValues(filter), after, limit]))).map(letterOf)
  }
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

export function filterValues(filter: LetterFilter): Bindable[] {
  return letterFilterValues(filter, JSON.stringify)
}
