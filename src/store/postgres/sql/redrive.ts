import { FILTER_PARAMETERS, letterColumns, matches } from './dead-letter.ts'
import { numberIn } from './namespace.ts'

const COLUMNS = ['id', 'seq', 'consumer', 'source', 'aggregate', 'state', 'parked_at']

/**
 * The letters of a redrive, and what forbids to run them. These are the matching letters, and the successors that are
 * parked behind them. Each aggregate is read, sorted and counted once, without lookups in the result. So the cost does
 * not depend on the planner's estimates.
 * $1-$12 filter
 */
function frozen(schema: string): string {
  const columns = (of: string): string => COLUMNS.map((column) => `${of}.${column}`).join(', ')
  const letter = `${schema}.dead_letter`
  return `
m as materialized (
  select ${columns('d')} from ${letter} d where ${matches('d')} and d.state in (1, 2)
), g as materialized (
  select consumer, source, aggregate, min(seq) filter (where state = 1) as head from m where aggregate is not null group by 1, 2, 3
), x as (
  select ${columns('m')}, true as matching, true as taken from m
  union all
  select ${columns('e')}, false, coalesce(e.reason = 'behind' and e.seq > g.head, false) from g cross join lateral (
    select e.* from ${letter} e
     where e.consumer = g.consumer and e.source = g.source and e.aggregate = g.aggregate and e.state = 1
       and (${matches('e')}) is not true offset 0) e
), t as materialized (
  select x.*, min(seq) filter (where not taken) over (partition by consumer, source, aggregate) as waiting from x
), c as materialized (
  select t.*, k.name is not null as known, extract(epoch from clock_timestamp() - k.seen_at)::float8 * 1000 as seen_ago,
         (exists (select 1 from ${schema}.inbox i where i.id = t.id) or exists (select 1 from ${schema}.mark x where x.id = t.id)) as applied,
         coalesce(t.parked_at < clock_timestamp() - k.remember_ms * interval '1 millisecond', false) as older,
         t.aggregate is not null and (t.state = 2 or coalesce(t.waiting < t.seq, false)) as overtaking
    from t left join ${schema}.consumer k on k.name = t.consumer where t.taken
), counted as materialized (
  select c.consumer, bool_and(c.known) as known, max(c.seen_ago) as seen_ago,
         (count(*) filter (where c.matching))::int4 as matching, (count(*) filter (where not c.matching))::int4 as behind,
         (count(*) filter (where c.applied))::int4 as applied, (count(*) filter (where c.older))::int4 as older,
         (count(*) filter (where c.overtaking))::int4 as overtaking,
         (count(distinct (c.source, c.aggregate)) filter (where c.overtaking))::int4 as reordered
    from c group by c.consumer
)`
}

/** $1-$12 filter */
export function planRedriveSql(schema: string): string {
  return `with ${frozen(schema)} select * from counted order by matching desc, consumer`
}

/**
 * Plans and freezes the letters in one statement, so both see the same letters. It waits only for another redrive of
 * the same consumer that is being created.
 * $1-$12 filter, then by, why, asked, state, canary, canary stops, rate, pause at, force, reorder, number of the
 * namespace
 */
export function createRedriveSql(schema: string): string {
  const p = (n: number): string => `$${FILTER_PARAMETERS + n}`
  return `with ${frozen(schema)}, r as (
  insert into ${schema}.redrive (consumer, actor, why, state, canary, canary_stops, rate, pause_at)
  select consumer, ${p(1)}::text, ${p(2)}::text, ${p(4)}::int2, ${p(5)}::int4, ${p(6)}::bool, ${p(7)}::float8, ${p(8)}::float8
    from counted where known and (${p(9)}::bool or older = 0) and (${p(10)}::bool or overtaking = 0)
  on conflict (consumer) where state in (1, 2, 3) do nothing
  returning id
), i as (
  insert into ${schema}.redrive_item (redrive, ord, letter)
  select r.id, (row_number() over (order by c.seq))::int4, c.id from r, c returning 1
), a as (
  insert into ${schema}.audit (redrive, actor, action, why, detail, namespace)
  select r.id, ${p(1)}::text, 'run', ${p(2)}::text, ${p(3)}::text::jsonb || jsonb_build_object('letters', (select count(*) from i)), ${p(11)}::int2 from r
)
select counted.*, (select id from r) as redrive from counted`
}

/** $1 consumer */
export function activeRedriveSql(schema: string): string {
  return `select id from ${schema}.redrive where consumer = $1::text and state in (1, 2, 3)`
}

/** $1 redrive (null: all), $2 limit, $3 namespace (null: any) */
export function readRedrivesSql(schema: string): string {
  const count = (state: number): string => `(count(*) filter (where i.state = ${state}))::int4`
  return `
select r.id, r.consumer, r.state::int4 as state, r.reason, r.actor, r.why, r.canary, r.canary_stops, r.rate, r.pause_at,
       extract(epoch from r.created_at)::float8 * 1000 as created_at, extract(epoch from r.ended_at)::float8 * 1000 as ended_at,
       coalesce(r.lease_until > clock_timestamp(), false) as held, extract(epoch from clock_timestamp() - k.seen_at)::float8 * 1000 as seen_ago, n.*
  from ${schema}.redrive r left join ${schema}.consumer k on k.name = r.consumer
  cross join lateral (
    select ${[0, 1, 2, 3, 4, 5].map((state) => `${count(state)} as n${state}`).join(', ')} from ${schema}.redrive_item i where i.redrive = r.id) n
 where ($1::int4 is null or r.id = $1::int4) and ($3::text is null or ${numberIn('r.consumer')} = $3::text)
 order by r.id desc limit $2::int4`
}

/** $1 redrive, $2 states, $3 after, $4 limit */
export function redriveItemsSql(schema: string): string {
  return `
select i.ord, i.state::int4 as outcome, i.starts, i.body as copy, ${letterColumns()}, 0 as blocks
  from ${schema}.redrive_item i join ${schema}.dead_letter d on d.id = i.letter
 where i.redrive = $1::int4 and i.state = any($2::text::int2[]) and i.ord > $3::int4
 order by i.ord limit $4::int4`
}

/** $1 redrive, $2 ords, $3 bodies */
export function copyRedriveSql(schema: string): string {
  return `
update ${schema}.redrive_item i set body = v.body
  from unnest($2::text::int4[], $3::text::text[]) v(ord, body), ${schema}.redrive r
 where i.redrive = $1::int4 and i.ord = v.ord and r.id = i.redrive and r.state = 1`
}

/**
 * Locks the redrive's row. $1 redrive, $2 from, $3 to, $4 reason, $5 by, $6 why, $7 action, $8 token (null: any),
 * $9 retry, $10 the canary is over, $11 rate (null: as it was), $12 number of the namespace, $13 round (null: any)
 */
export function changeRedriveSql(schema: string): string {
  return `
with r as (
  update ${schema}.redrive r set state = $3::int2, reason = $4::text, rate = coalesce($11::float8, r.rate),
         canary = case when $10::bool then 0 else r.canary end, round = r.round + case when $9::bool then 1 else 0 end,
         ended_at = case when $3::int2 in (4, 5) then clock_timestamp() end
   where r.id = $1::int4 and r.state = any($2::text::int2[]) and ($8::text is null or r.token = $8::text::int8)
     and ($13::int4 is null or r.round = $13::int4)
  returning r.id
), i as (
  update ${schema}.redrive_item i set state = 0, starts = 0 from r where $9::bool and i.redrive = r.id and i.state in (3, 4) returning 1
), a as (
  insert into ${schema}.audit (redrive, actor, action, why, detail, namespace)
  select r.id, $5::text, $7::text, $6::text, jsonb_strip_nulls(jsonb_build_object('reason', $4::text, 'rate', $11::float8,
         'again', nullif((select count(*) from i), 0))), $12::int2
    from r
)
select r.id from r`
}
