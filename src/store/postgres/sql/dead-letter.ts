import { passPositions } from './inbox.ts'
import { numberIn } from './namespace.ts'

/**
 * Sets messages aside, with their attempts, unless they were applied already. An earlier statement has taken the locks
 * of the messages. Locks the rows of their attempts.
 * $1 consumer, letters from $2, then positions
 */
export function parkSql(schema: string): string {
  return `
with v as materialized (
  select * from unnest(${LETTER_TYPES.map((type, i) => `$${i + 2}::text::${type}[]`).join(', ')}) with ordinality
    as v(${LETTER_COLUMNS.join(', ')}, n)
), t as (
  delete from ${schema}.attempt a using v where a.id = v.id returning a.id, a.attempts, a.timeline
), p as (
  ${passPositions(schema, LETTER_TYPES.length + 2)}
)
insert into ${schema}.dead_letter (consumer, ${LETTER_COLUMNS.join(', ')}, timeline)
select $1::text, ${LETTER_COLUMNS.map((column) => (column === 'attempts' ? 'greatest(v.attempts, coalesce(t.attempts, 0))' : `v.${column}`)).join(', ')},
       coalesce(t.timeline, '[]')
  from v left join t on t.id = v.id
 where not exists (select 1 from ${schema}.inbox i where i.id = v.id)
   and not exists (select 1 from ${schema}.mark m where m.id = v.id)
 order by v.n
on conflict (id) do nothing`
}

export const LETTER_COLUMNS = [
  'id',
  'source',
  'message',
  'type',
  'aggregate',
  'previous',
  'tenant',
  'state',
  'reason',
  'error',
  'fingerprint',
  'causes',
  'body',
  'shown',
  'headers',
  'traceparent',
  'attempts',
] as const

const LETTER_TYPES = [
  'uuid',
  'text',
  'text',
  'text',
  'text',
  'uuid',
  'text',
  'int2',
  'text',
  'text',
  'text',
  'jsonb',
  'text',
  'text',
  'jsonb',
  'text',
  'int4',
] as const

/** How many parameters the filter has. */
export const FILTER_PARAMETERS = 12

/**
 * Consumer, source, type, aggregate, tenant, fingerprint, reason, states, ids, from, to, namespace. Null matches every
 * letter. `d` is the letter.
 */
export function matches(d: string = 'd'): string {
  const is = (column: string, n: number): string => `($${n}::text is null or ${d}.${column} = $${n}::text)`
  return `${is('consumer', 1)} and ${is('source', 2)} and ${is('type', 3)} and ${is('aggregate', 4)} and ${is('tenant', 5)}
   and ${is('fingerprint', 6)} and ${is('reason', 7)} and ($8::text is null or ${d}.state = any($8::text::int2[]))
   and ($9::text is null or ${d}.id = any((select $9::text::uuid[])::uuid[]))
   and ($10::float8 is null or ${d}.parked_at >= to_timestamp($10::float8 / 1000))
   and ($11::float8 is null or ${d}.parked_at < to_timestamp($11::float8 / 1000))
   and ($12::text is null or ${numberIn(`${d}.consumer`)} = $12::text)`
}

/** The columns of a letter. */
export function letterColumns(): string {
  return `d.id::text as id, d.seq::float8 as seq, d.consumer, d.source, d.message, d.type, d.aggregate, d.previous::text as previous, d.tenant,
       d.state::int4 as state, d.reason, d.error, d.fingerprint, d.causes::text as causes, d.body, d.shown, d.headers::text as headers,
       d.traceparent, d.attempts, d.timeline::text as timeline,
       extract(epoch from d.parked_at)::float8 * 1000 as parked_at, extract(epoch from d.settled_at)::float8 * 1000 as settled_at`
}

/**
 * `blocks` counts the letters that are parked behind a letter. Each aggregate is read only once, and counted from its
 * end, however many of its letters match.
 * $1-$12 filter, $13 after, $14 limit
 */
export function listLettersSql(schema: string): string {
  const letter = `${schema}.dead_letter`
  return `
with p as materialized (
  select d.id, d.seq, d.consumer, d.source, d.aggregate from ${letter} d
   where ${matches()} and d.seq > $13::float8::int8 order by d.seq limit $14::int4
), g as materialized (
  select consumer, source, aggregate, min(seq) as first from p where aggregate is not null group by 1, 2, 3
), x as (
  select id, consumer, source, aggregate, seq, 0 as parked from p
  union all
  select null, g.consumer, g.source, g.aggregate, e.seq, 1 from g cross join lateral (
    select e.seq from ${letter} e
     where e.consumer = g.consumer and e.source = g.source and e.aggregate = g.aggregate and e.state = 1 and e.seq > g.first offset 0) e
), n as materialized (
  select id, (sum(parked) over (partition by consumer, source, aggregate order by seq desc, parked rows unbounded preceding))::int4 as blocks from x
)
select ${letterColumns()}, n.blocks from n join ${letter} d on d.id = n.id order by d.seq`
}

/** The same list without the counts of `blocks`. */
export function readLettersSql(schema: string): string {
  return `
select ${letterColumns()}, 0 as blocks
  from ${schema}.dead_letter d
 where ${matches()} and d.seq > $13::float8::int8
 order by d.seq limit $14::int4`
}

/** $1-$12 filter */
export function countLettersSql(schema: string): string {
  return `
select d.consumer, d.fingerprint, d.reason, (array_agg(d.error order by d.seq desc))[1] as error, count(*)::int4 as count,
       extract(epoch from min(d.parked_at))::float8 * 1000 as first_at, extract(epoch from max(d.parked_at))::float8 * 1000 as last_at
  from ${schema}.dead_letter d
 where ${matches()}
 group by d.consumer, d.fingerprint, d.reason order by 5 desc, 1, 2`
}

/** Settles letters without running them. Locks the rows. $1-$12 filter, $13 limit */
export function discardLettersSql(schema: string): string {
  return `
with u as (
  update ${schema}.dead_letter x set state = 4, settled_at = clock_timestamp()
   where x.state in (1, 2) and x.id in (
     select d.id from ${schema}.dead_letter d where ${matches()} and d.state in (1, 2) order by d.seq limit $13::int4 for update)
  returning 1
)
select count(*)::int4 as discarded from u`
}
