import { MATCHES, numberIn } from './letters.ts'
import { NOW } from './migrations.ts'

/** The statements of redrives. With one writer, several statements in one turn are as atomic as one. */

const LETTER = 'effectively_once_dead_letter'
const same = (a: string, b: string): string =>
  `${a}.consumer = ${b}.consumer and ${a}.source = ${b}.source and ${a}.aggregate = ${b}.aggregate`

const COLUMNS = ['id', 'seq', 'consumer', 'source', 'aggregate', 'state', 'parked_at']
const columns = (of: string): string => COLUMNS.map((column) => `${of}.${column}`).join(', ')

/**
 * The matching letters, and the successors that are parked behind them. `taken` is 0 for other parked letters of their
 * aggregates, and `waiting` is the first of those. Each aggregate is read once. $1-$12 filter
 */
const FROZEN = `m as materialized (
  select ${columns('d')} from ${LETTER} d where ${MATCHES} and d.state in (1, 2)
), g as materialized (
  select consumer, source, aggregate, min(case when state = 1 then seq end) as head from m where aggregate is not null group by 1, 2, 3
), x as materialized (
  select ${columns('m')}, 1 as matching, 1 as taken from m
  union all
  select ${columns('d')}, 0, coalesce(d.reason = 'behind' and d.seq > g.head, 0) from g cross join ${LETTER} d on ${same('d', 'g')}
    where d.state = 1 and (${MATCHES}) is not true
), t as materialized (
  select x.*, min(case when taken then null else seq end) over (partition by consumer, source, aggregate) as waiting from x
)`

export const PLAN: string = `with ${FROZEN}, c as materialized (
  select t.*, k.name is not null as known, ${NOW} - k.seen_at as seen_ago,
    exists (select 1 from effectively_once_inbox i where i.id = t.id) or exists (select 1 from effectively_once_mark x where x.id = t.id) as applied,
    coalesce(t.parked_at < ${NOW} - k.remember_ms, 0) as older,
    t.aggregate is not null and (t.state = 2 or coalesce(t.waiting < t.seq, 0)) as overtaking
  from t left join effectively_once_consumer k on k.name = t.consumer where t.taken
)
select consumer, min(known) as known, max(seen_ago) as seen_ago, sum(matching) as matching, sum(1 - matching) as behind,
  sum(applied) as applied, sum(older) as older, sum(overtaking) as overtaking,
  count(distinct case when overtaking then source || char(0) || aggregate end) as reordered
from c group by consumer order by sum(matching) desc, consumer`

export const CREATE: string = `insert into effectively_once_redrive (consumer, actor, why, state, canary, canary_stops, rate, pause_at, created_at)
  values (?, ?, ?, ?, ?, ?, ?, ?, ${NOW}) on conflict (consumer) where state in (1, 2, 3) do nothing returning id`
/** $13 redrive */
export const FREEZE: string = `insert into effectively_once_redrive_item (redrive, ord, letter)
  select $13, row_number() over (order by t.seq), t.id from (with ${FROZEN} select * from t where taken) t`
export const ACTIVE: string = `select id from effectively_once_redrive where consumer = ? and state in (1, 2, 3)`

const count = (state: number): string =>
  `(select count(*) from effectively_once_redrive_item i where i.redrive = r.id and i.state = ${state}) as n${state}`
export const READ: string = `select r.*, coalesce(r.lease_until > ${NOW}, 0) as held, ${NOW} - k.seen_at as seen_ago,
    ${[0, 1, 2, 3, 4, 5].map(count).join(', ')}
  from effectively_once_redrive r left join effectively_once_consumer k on k.name = r.consumer
  where ($1 is null or r.id = $1) and ($3 is null or ${numberIn('r.consumer')} = $3) order by r.id desc limit $2`
export const ITEMS: string = `select i.ord, i.state as outcome, i.starts, i.body as copy, d.*, 0 as blocks
  from effectively_once_redrive_item i join ${LETTER} d on d.id = i.letter
  where i.redrive = ? and i.state in (select value from json_each(?)) and i.ord > ? order by i.ord limit ?`
export const COPY: string = `update effectively_once_redrive_item set body = ? where redrive = ? and ord = ?
  and exists (select 1 from effectively_once_redrive r where r.id = redrive and r.state = 1)`

/** $1 redrive, $2 from, $3 to, $4 reason, $5 token, $6 retry, $7 the canary is over, $8 rate, $9 round */
export const CHANGE: string = `update effectively_once_redrive set state = $3, reason = $4, rate = coalesce($8, rate),
    canary = case when $7 then 0 else canary end, round = round + $6, ended_at = case when $3 in (4, 5) then ${NOW} end
  where id = $1 and state in (select value from json_each($2)) and ($5 is null or token = cast($5 as integer))
    and ($9 is null or round = $9)`
export const RETRY: string = `update effectively_once_redrive_item set state = 0, starts = 0 where redrive = ? and state in (3, 4)`

export const SEEN: string = `update effectively_once_consumer set seen_at = ${NOW} where name = ? and seen_at < ${NOW} - 10000`
/** $1 consumer */
export const LOOK: string = `select exists (select 1 from effectively_once_redrive where consumer = $1 and state = 2
    and (lease_until is null or lease_until < ${NOW})) as free,
  exists (select 1 from effectively_once_consumer where name = $1 and seen_at < ${NOW} - 10000) as unseen`
export const CLAIM: string = `update effectively_once_redrive set token = token + 1, lease_until = ${NOW} + ? where consumer = ? and state = 2
  and (lease_until is null or lease_until < ${NOW}) returning id, token, rate, pause_at`
export const BEAT: string = `update effectively_once_redrive set lease_until = ${NOW} + ? where id = ? and token = cast(? as integer) returning *`
export const STARTED: string = `update effectively_once_redrive_item set starts = starts + 1 where redrive = ? and ord in (select value from json_each(?))`
export const ENDED: string = `update effectively_once_redrive_item set starts = 0 where redrive = ? and ord in (select value from json_each(?))`
export const DECIDED: string = `select count(*) as decided, coalesce(sum(state = 3), 0) as failed from effectively_once_redrive_item
  where redrive = ? and round = ? and state in (1, 2, 3)`
export const HELD: string = `select round from effectively_once_redrive where id = ? and token = cast(? as integer)`
/** Adds letters that were parked behind the letters of this redrive after its start. $1 redrive, $2 token */
export const EXTEND: string = `insert into effectively_once_redrive_item (redrive, ord, letter)
  with t as materialized (
    select i.ord, i.body as copy, ${columns('d')} from effectively_once_redrive r join effectively_once_redrive_item i on i.redrive = r.id
      join ${LETTER} d on d.id = i.letter where r.id = $1 and r.token = cast($2 as integer)
  ), g as materialized (
    select consumer, source, aggregate, max(seq) as head from t where aggregate is not null group by 1, 2, 3 having min(state) > 2
  ), x as (
    select e.id, e.seq, min(case when e.reason <> 'behind' then e.seq end) over (partition by e.source, e.aggregate) as failed
      from g cross join ${LETTER} e on ${same('e', 'g')} where e.state = 1 and e.seq > g.head
  )
  select $1, (select max(ord) from t) + row_number() over (order by x.seq), x.id from x
    where (x.failed is null or x.seq < x.failed) and not exists (select 1 from t where copy is not null)`
export const RELEASE: string = `update effectively_once_redrive set lease_until = null where id = ? and token = cast(? as integer)`

/** $1 redrive, $2 ord */
const ITEM_LETTER = `(select letter from effectively_once_redrive_item where redrive = $1 and ord = $2 and state = 0)`
export const SETTLE_LETTER: string = `update ${LETTER} set state = 3, settled_at = ${NOW} where id = ${ITEM_LETTER} and state in (1, 2)`
/** $3 error, $4 reason, $5 fingerprint, $6 causes */
export const FAIL_LETTER: string = `update ${LETTER} set attempts = attempts + 1, error = $3, reason = $4, fingerprint = $5, causes = $6,
    timeline = json_insert(case when json_array_length(timeline) >= 50 then json_remove(timeline, '$[1]') else timeline end,
      '$[#]', json_object('at', ${NOW}, 'error', $3, 'fingerprint', $5))
  where id = ${ITEM_LETTER} and state in (1, 2)`
/** Blocks the successors of a parked letter in this redrive. $3 round */
export const BLOCK: string = `update effectively_once_redrive_item set state = 4, starts = 0, round = $3 where redrive = $1 and state = 0 and letter in (
  select d.id from ${LETTER} f join ${LETTER} d on ${same('d', 'f')} and d.seq > f.seq where f.id = ${ITEM_LETTER} and f.state = 1)`
/** $3 round, $4 outcome */
export const DECIDE: string = `update effectively_once_redrive_item set state = $4, starts = 0, round = $3 where redrive = $1 and ord = $2 and state = 0`

export const AUDIT: string = `select * from effectively_once_audit where ($1 is null or redrive = $1)
  and ($3 is null or namespace = $3) order by seq desc limit $2`
export const WRITE: string = `insert into effectively_once_audit (at, actor, action, redrive, why, detail, namespace)
  values (${NOW}, ?, ?, ?, ?, ?, ?)`
export const APPLIED: string = `select exists (select 1 from effectively_once_inbox where id = $1)
  or exists (select 1 from effectively_once_mark where id = $1) as applied`
export const IMPORT: string = `insert into ${LETTER} (id, consumer, source, message, type, aggregate, previous, tenant, state, reason, error,
    fingerprint, causes, body, shown, headers, traceparent, attempts, timeline, parked_at)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do nothing`
const OLD = `select id from effectively_once_redrive where state in (4, 5) and ended_at < ${NOW} - ?`
export const SWEEP_ITEMS: string = `delete from effectively_once_redrive_item where redrive in (${OLD})`
export const SWEEP: string = `delete from effectively_once_redrive where id in (${OLD})`
