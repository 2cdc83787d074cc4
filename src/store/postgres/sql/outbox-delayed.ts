import { SHARDS } from '../../../limits.ts'
import { outboxInsertSql } from './namespace-tables.ts'

/**
 * Each delayed event has its own row from its publication on. A relay takes the event, or a caller cancels it:
 * whichever changes the row's state first decides for all destinations. Events of older processes have no row, and
 * cannot be cancelled. Delayed events are written through the view, so other events do not pay for this.
 *
 * A transaction may cancel an event that it writes only at its end. Then the row exists before the event, and gets the
 * event's number later. Plain SQL may choose ids, so two services may have the same id.
 */
export function delayedTableSql(schema: string): readonly string[] {
  return [
    `create table ${schema}.delayed (
  id uuid not null,
  seq bigint,
  shard smallint not null,
  state smallint not null default 1,
  primary key (id, shard)
)`,
    `comment on column ${schema}.delayed.state is '1 waiting, 2 taken, 3 cancelled'`,
    outboxInsertSql(
      schema,
      `
  if jsonb_exists(new.headers, 'notbefore') then
    insert into ${schema}.delayed as d (id, seq, shard) values (new.id, new.seq, new.shard)
    on conflict (id, shard) do update set seq = excluded.seq where d.seq is null;
  end if;`,
    ),
  ]
}

/** $1 id, $2 namespace */
export function findDelayedSql(schema: string): string {
  return `
select d.shard::int4 as shard, e.headers::text as headers
  from ${schema}.delayed d join ${schema}.event e on e.shard = d.shard and e.seq = d.seq
 where d.id = $1::text::uuid and d.shard / ${SHARDS} = $2::int4 limit 1`
}

/**
 * Cancels the event, or finds that it is too late. Then it stays too late. Once its time has come, nothing is
 * cancelled: a relay may have sent the event, and a failover may have lost that record. Locks the event's row until the
 * end of the transaction.
 * $1 id, $2 shard, $3 time
 */
export function cancelDelayedSql(schema: string): string {
  return `
insert into ${schema}.delayed as d (id, shard, state)
values ($1::text::uuid, $2::int4, case when $3::text::timestamptz > clock_timestamp() then 3 else 2 end)
on conflict (id, shard) do update set state = case when d.state = 1 then excluded.state else d.state end
returning d.state = 3 as cancelled`
}

/**
 * Called before delayed events are sent, for all destinations. Returns the events that must not be sent: they were
 * cancelled, or their row is locked, perhaps by a cancellation. It never waits. $1 ids, $2 namespace
 */
export function takeDelayedSql(schema: string): string {
  return `
with d as materialized (
  select d.id, d.shard, d.state from ${schema}.delayed d
   where d.id = any($1::text::uuid[]) and d.shard / ${SHARDS} = $2::int4 and d.state <> 2 for update skip locked
), t as (
  update ${schema}.delayed x set state = 2 from d where x.id = d.id and x.shard = d.shard and d.state = 1
)
select x.id::text as id, d.state is not null as cancelled
  from ${schema}.delayed x left join d on d.id = x.id and d.shard = x.shard
 where x.id = any($1::text::uuid[]) and x.shard / ${SHARDS} = $2::int4 and x.state <> 2 and d.state is distinct from 1`
}

/** The events with a held one before them in their aggregate. $1 destination, $2 shards, $3 seqs, $4 aggregates */
export function heldBeforeSql(schema: string): string {
  return `
select v.shard, v.seq::float8 as seq from unnest($2::text::int4[], $3::text::int8[], $4::text::text[]) v(shard, seq, aggregateid)
 where exists (select 1 from ${schema}.held h
                where h.destination = $1::text and h.shard = v.shard and h.aggregateid = v.aggregateid and h.seq < v.seq and h.state <> 4)`
}

/**
 * Looks at the next rows after an id, and deletes those whose events are gone and that no caller is cancelling. Returns
 * the last id it looked at, or nothing at the end. A row without a number was cancelled by a transaction that never
 * published its event. $1 limit, $2 id
 */
export function sweepDelayedSql(schema: string): string {
  return `
with x as materialized (
  select d.id, d.seq, d.shard from ${schema}.delayed d where d.id > $2::text::uuid order by d.id limit $1::int4
), g as (
  delete from ${schema}.delayed d where (d.id, d.shard) in (
    select y.id, y.shard from ${schema}.delayed y join x on x.id = y.id and x.shard = y.shard
     where not exists (select 1 from ${schema}.event e where e.shard = x.shard and e.seq = x.seq) for update of y skip locked)
)
select x.id::text as last from x order by x.id offset $1::int4 - 1`
}
