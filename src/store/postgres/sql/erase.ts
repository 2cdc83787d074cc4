import { numberIn } from './namespace.ts'

/** Transactions that write records, or may be about to. Their table lock shows it. */
export function recordWritersSql(schema: string): string {
  return `
select l.virtualtransaction as id from pg_locks l
 where l.locktype = 'relation' and l.relation = '${schema}.record'::regclass and l.mode = 'RowExclusiveLock'
   and l.pid is distinct from pg_backend_pid() and l.database = (select d.oid from pg_database d where d.datname = current_database())`
}

export function recordBlocksSql(schema: string): string {
  return `select (pg_relation_size('${schema}.record') / current_setting('block_size')::int8)::int4 as blocks`
}

/**
 * Locks completed records of a scope, in a part of the table that is found by physical address, so that the hot path
 * needs no index. Skips locked rows: their operations run, or have just been retried. The next statement removes the
 * data. It has a newer snapshot, so it sees the answer that was committed with the record.
 * $1 scope, $2 after this tid, $3 tid past the end, $4 limit
 */
export function lockErasedSql(schema: string, lock: boolean): string {
  return lockedSql(
    schema,
    `r.ctid > $2::text::tid and r.ctid < $3::text::tid and r.scope = $1::text::uuid and r.state = 2 order by r.ctid limit $4::int4`,
    lock,
  )
}

/** The same for one operation. $1 scope, $2 id */
export function lockErasedByIdSql(schema: string, lock: boolean): string {
  return lockedSql(schema, `r.id = $2::text::uuid and r.scope = $1::text::uuid and r.state = 2`, lock)
}

function lockedSql(schema: string, where: string, lock: boolean): string {
  return `
with m as materialized (
  select r.id, r.ctid as at from ${schema}.record r where ${where}
), l as materialized (
  select r.id, r.fp_version from ${schema}.record r join m on m.id = r.id where r.state = 2${lock ? ' for update of r skip locked' : ''}
)
select m.id::text as id, m.at::text as at, l.id is not null as free, l.fp_version > 0 as fresh
  from m left join l on l.id = m.id order by m.at`
}

/**
 * Turns locked records into tombstones. They expire when they are forgotten, so that nothing renews them earlier.
 * Answers of earlier lives are in the partitions of other days. The ids are read once: a cast of a text to an array is
 * not immutable, so that a filter would parse the text for each row. $1 ids, $2 fp, $3 fp version
 */
export function eraseRecordsSql(schema: string): string {
  const ids = `(select i.id from i)`
  return `
with i as materialized (select unnest($1::text::uuid[]) as id),
     a as (delete from ${schema}.answer where id in ${ids}),
     s as (delete from ${schema}.step where id in ${ids}),
     c as (delete from ${schema}.recover where id in ${ids}),
     k as (delete from ${schema}.chunk where id in ${ids})
update ${schema}.record r set fp = $2::text::uuid, fp_version = $3::int4, label = null, expires_at = r.forget_at
 where r.id in ${ids} and r.state = 2`
}

/**
 * Removes the data of events of one shard that every destination has passed. An event that a destination holds, or has
 * not reached, is returned instead. Resent and skipped events count as held and as sent. Locks the rows of the events.
 * $1 shard, $2 after, $3 limit, $4 aggregate types, $5 aggregate ids
 */
export function eraseEventsSql(schema: string, write: boolean): string {
  const erase = `, u as (
  update ${schema}.event e set payload = null,
         headers = '{"erased": true}'::jsonb
           || case when jsonb_exists(e.headers, 'previous') then jsonb_build_object('previous', e.headers->'previous') else '{}'::jsonb end
    from m where m.state is null and e.segment = m.segment and e.shard = $1::int4 and e.seq = m.seq
), d as (
  delete from ${schema}.held h using m where m.state is null and h.shard = $1::int4 and h.seq = m.seq and h.state = 4
)`
  return `
with w as materialized (
  select e.seq, e.segment, e.id, e.type, e.aggregatetype, e.aggregateid, e.headers->'erased' is not distinct from 'true' as erased
    from ${schema}.event e where e.shard = $1::int4 and e.seq > $2::float8::int8 order by e.seq limit $3::int4
), c as materialized (
  select coalesce(min(coalesce((select max(a.cursor) from ${schema}.ack a where a.destination = s.destination and a.shard = s.shard), 0)), 0) as cursor
    from ${schema}.shard s where s.shard = $1::int4
), m as materialized (
  select w.*, coalesce(
           (select case min(h.state) when 1 then 'waiting' when 2 then 'delayed' else 'parked' end
              from ${schema}.held h where h.shard = $1::int4 and h.seq = w.seq and h.state < 4 having count(*) > 0),
           case when w.seq > c.cursor then 'unsent' end) as state
    from w cross join c
   where not w.erased and exists (select 1 from unnest($4::text::text[], $5::text::text[]) g(type, id)
                                   where g.type = w.aggregatetype and g.id = w.aggregateid)
)${write ? erase : ''}
select (select count(*) from w)::int4 as read, (select max(w.seq) from w)::float8 as last,
       (select count(*) from m where m.state is null)::int4 as erased, p.id::text as id, p.type, p.aggregateid, p.state
  from (select true) one left join m p on p.state is not null order by p.seq`
}

/**
 * Empties letters, and settles those that are parked or skipped. Letters of a redrive that has not ended are returned
 * instead. Skips locked rows. $1 namespace, $2 tenant, $3 aggregate types, $4 aggregate ids, $5 after, $6 limit
 */
export function eraseLettersSql(schema: string, write: boolean): string {
  const letter = `${schema}.dead_letter`
  const erase = `, u as (
  update ${letter} d set state = case when d.state in (1, 2) then 4 else d.state end, settled_at = coalesce(d.settled_at, clock_timestamp()),
         aggregate = null, tenant = null, error = null, traceparent = null, timeline = '[]', causes = '[]', headers = '{}', body = '', shown = null
    from l where d.id = l.id
), i as (
  update ${schema}.redrive_item i set body = null from l where i.letter = l.id and i.body is not null
)`
  return `
with w as materialized (
  select d.id, d.seq, ${numberIn('d.consumer')} = $1::text and (d.tenant = $2::text or exists (
           select 1 from unnest($3::text::text[], $4::text::text[]) g(type, id)
            where g.type = split_part(d.type, '.', 1) and g.id = d.aggregate)) as meant
    from ${letter} d where d.seq > $5::float8::int8 order by d.seq limit $6::int4
), r as materialized (
  select i.letter, max(i.redrive) as redrive from ${schema}.redrive v join ${schema}.redrive_item i on i.redrive = v.id
   where v.state in (1, 2, 3) and i.letter in (select w.id from w where w.meant) group by i.letter
), l as materialized (
  select d.id, d.state from ${letter} d join w on w.id = d.id
   where w.meant and d.id not in (select r.letter from r)${write ? ' for update of d skip locked' : ''}
)${write ? erase : ''}
select (select count(*) from w)::int4 as read, (select max(w.seq) from w)::float8 as last, (select count(*) from l)::int4 as erased,
       (select count(*) from l where l.state in (1, 2))::int4 as discarded, p.id::text as id, p.redrive::int4 as redrive
  from (select true) one
  left join (select w.id, r.redrive from w left join r on r.letter = w.id where w.meant and w.id not in (select l.id from l)) p on true`
}
