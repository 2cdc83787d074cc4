/**
 * Statements of a process that works on a redrive. The token is the fence: the next process gets a higher token. A
 * token is at least the current time, so a server that lost the last tokens does not assign them again.
 */

/** Reports from time to time that the consumer runs. $1 consumer */
export function consumerSeenSql(schema: string): string {
  return `update ${schema}.consumer set seen_at = clock_timestamp() where name = $1::text and seen_at < clock_timestamp() - interval '10 seconds'`
}

/**
 * Takes a redrive that no process holds. A holder that is about to commit has locked the row, so the row is skipped. $1
 * consumer, $2 lease ms
 */
export function claimRedriveSql(schema: string): string {
  return `
update ${schema}.redrive r
   set token = greatest(r.token + 1, (extract(epoch from clock_timestamp()) * 1000000)::int8), lease_until = clock_timestamp() + $2::float8 * interval '1 millisecond'
 where r.id = (select id from ${schema}.redrive where consumer = $1::text and state = 2
                  and (lease_until is null or lease_until < clock_timestamp()) limit 1 for update skip locked)
returning r.id, r.token::text as token, r.rate, r.pause_at`
}

/**
 * Renews the lease. Locks the rows of the redrive and of the items. $1 redrive, $2 token, $3 lease ms, $4 starting, $5
 * ended
 */
export function beatRedriveSql(schema: string): string {
  const item = `${schema}.redrive_item i`
  return `
with r as (
  update ${schema}.redrive r set lease_until = clock_timestamp() + $3::float8 * interval '1 millisecond'
   where r.id = $1::int4 and r.token = $2::text::int8 returning r.*
), s as (
  update ${item} set starts = case when i.ord = any($4::text::int4[]) then i.starts + 1 else 0 end
    from r where i.redrive = r.id and i.ord = any($4::text::int4[] || $5::text::int4[])
)
select r.state::int4 as state, r.round, r.rate, r.canary, r.canary_stops,
       case when r.canary > 0 then (select count(*)::int4 from ${item} where i.redrive = r.id and i.round = r.round and i.state in (1, 2, 3)) else 0 end as decided,
       case when r.canary > 0 then (select count(*)::int4 from ${item} where i.redrive = r.id and i.round = r.round and i.state = 3) else 0 end as failed
  from r`
}

/**
 * Runs in the effect's transaction. Until the commit, it protects the redrive's row from a takeover, but not from a
 * pause.
 * $1 redrive, $2 token, $3 ords
 */
export function settleRedriveSql(schema: string): string {
  return `
with r as materialized (
  select id, round from ${schema}.redrive where id = $1::int4 and token = $2::text::int8 for key share
), d as (
  update ${schema}.dead_letter d set state = 3, settled_at = clock_timestamp()
    from ${schema}.redrive_item i, r
   where i.redrive = r.id and i.ord = any($3::text::int4[]) and i.state = 0 and d.id = i.letter and d.state in (1, 2)
  returning d.id
), i as (
  update ${schema}.redrive_item i set state = 1, starts = 0, round = r.round from r, d
   where i.redrive = r.id and i.ord = any($3::text::int4[]) and i.state = 0 and i.letter = d.id returning 1
)
select count(*)::int4 as settled from i`
}

/**
 * Settles letters that were applied before. A letter that failed stays parked with its new error, and its successors in
 * this redrive wait behind it. Locks the rows it changes.
 * $1 redrive, $2 token, $3 ords, $4 outcomes, $5 reasons, $6 errors, $7 fingerprints, $8 causes
 */
export function decideRedriveSql(schema: string): string {
  const letter = `${schema}.dead_letter`
  return `
with r as materialized (
  select id, round from ${schema}.redrive where id = $1::int4 and token = $2::text::int8 for key share
), v as materialized (
  select v.*, i.letter from r, unnest($3::text::int4[], $4::text::int2[], $5::text::text[], $6::text::text[], $7::text::text[], $8::text::jsonb[])
         v(ord, outcome, reason, error, fingerprint, causes)
    join ${schema}.redrive_item i on i.redrive = $1::int4 and i.ord = v.ord and i.state = 0
), settled as (
  update ${letter} d set state = 3, settled_at = clock_timestamp() from v where d.id = v.letter and v.outcome = 2 and d.state in (1, 2)
), failed as (
  update ${letter} d set attempts = d.attempts + 1, reason = v.reason, error = v.error, fingerprint = v.fingerprint, causes = v.causes,
         timeline = case when jsonb_array_length(d.timeline) >= 50 then d.timeline - 1 else d.timeline end
           || jsonb_build_object('at', floor(extract(epoch from clock_timestamp()) * 1000)::int8, 'error', v.error, 'fingerprint', v.fingerprint)
    from v where d.id = v.letter and v.outcome = 3 and d.state in (1, 2)
), blocked as (
  select i.ord from v join ${letter} f on f.id = v.letter and f.state = 1
    join ${letter} d on d.consumer = f.consumer and d.source = f.source and d.aggregate = f.aggregate and d.seq > f.seq
    join ${schema}.redrive_item i on i.redrive = $1::int4 and i.letter = d.id and i.state = 0
   where v.outcome in (3, 4) and not exists (select 1 from v w where w.ord = i.ord)
), i as (
  update ${schema}.redrive_item i set state = coalesce(v.outcome, 4), starts = 0, round = r.round
    from r, (select ord, outcome from v union select ord, null from blocked) v where i.redrive = r.id and i.ord = v.ord
)
select count(*)::int4 as held from r`
}

/**
 * Adds letters that were parked behind the letters of this redrive after its start. All letters of the aggregate must
 * be settled, and no letter that failed itself may come before the added one. A redrive with a transform adds none,
 * because copies exist only for its first letters. $1 redrive, $2 token
 */
export function extendRedriveSql(schema: string): string {
  const letter = `${schema}.dead_letter`
  return `
with r as materialized (
  select id from ${schema}.redrive where id = $1::int4 and token = $2::text::int8 for key share
), t as materialized (
  select i.ord, i.body as copy, d.consumer, d.source, d.aggregate, d.state, d.seq from r join ${schema}.redrive_item i on i.redrive = r.id join ${letter} d on d.id = i.letter
), g as materialized (
  select consumer, source, aggregate, max(seq) as head from t where aggregate is not null group by 1, 2, 3 having bool_and(state > 2)
), x as (
  select e.id, e.seq, min(e.seq) filter (where e.reason <> 'behind') over (partition by e.source, e.aggregate) as failed
    from g join ${letter} e on e.consumer = g.consumer and e.source = g.source and e.aggregate = g.aggregate and e.state = 1 and e.seq > g.head
), i as (
  insert into ${schema}.redrive_item (redrive, ord, letter)
  select r.id, ((select max(ord) from t) + row_number() over (order by x.seq))::int4, x.id from r, x
   where (x.failed is null or x.seq < x.failed) and not exists (select 1 from t where t.copy is not null) returning 1
)
select count(*)::int4 as letters from i`
}

/** $1 redrive, $2 token */
export function releaseRedriveSql(schema: string): string {
  return `update ${schema}.redrive set lease_until = null where id = $1::int4 and token = $2::text::int8`
}

/** $1 redrive (null: all), $2 limit, $3 namespace (null: any) */
export function readAuditSql(schema: string): string {
  return `
select seq::float8 as seq, extract(epoch from at)::float8 * 1000 as at, actor, action, redrive, why, detail::text as detail
  from ${schema}.audit where ($1::int4 is null or redrive = $1::int4) and ($3::int2 is null or namespace = $3::int2) order by seq desc limit $2::int4`
}

/** $1 by, $2 action, $3 redrive, $4 why, $5 detail, $6 namespace */
export function writeAuditSql(schema: string): string {
  return `insert into ${schema}.audit (actor, action, redrive, why, detail, namespace) values ($1::text, $2::text, $3::int4, $4::text, $5::text::jsonb, $6::int2)`
}

/** Inserts letters from a file as they were parked. An earlier statement has taken their locks. $1 JSON text of them */
export function importLettersSql(schema: string): string {
  const columns = 'id, consumer, source, message, type, aggregate, previous, tenant, state, reason, error, fingerprint'
  const more = 'causes, body, shown, headers, traceparent, attempts, timeline'
  return `
with v as materialized (
  select v.*, exists (select 1 from ${schema}.inbox i where i.id = v.id) or exists (select 1 from ${schema}.mark m where m.id = v.id) as applied
    from jsonb_to_recordset($1::text::jsonb) v(id uuid, consumer text, source text, message text, type text, aggregate text, previous uuid, tenant text,
         state int2, reason text, error text, fingerprint text, causes jsonb, body text, shown text, headers jsonb, traceparent text, attempts int4,
         timeline jsonb, parked float8, n int4)
), i as (
  insert into ${schema}.dead_letter (${columns}, ${more}, parked_at)
  select ${columns}, ${more}, to_timestamp(parked / 1000) from v where not applied order by n
  on conflict (id) do nothing returning 1
)
select (select count(*)::int4 from i) as imported, (count(*) filter (where applied))::int4 as applied from v`
}

/** $1 keep ms */
export function sweepRedrivesSql(schema: string): string {
  return `
with r as (
  delete from ${schema}.redrive where state in (4, 5) and ended_at < clock_timestamp() - $1::float8 * interval '1 millisecond' returning id
), i as (
  delete from ${schema}.redrive_item i using r where i.redrive = r.id
)
select count(*)::int4 as redrives from r`
}
