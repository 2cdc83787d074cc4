/**
 * Events and acknowledgements are lists of segments: a sequence says which one is written now, old ones are dropped
 * whole. Nothing is ever deleted or updated on the way, and the sweeper that turns over waits for nobody.
 *
 * The number is the column's default, so a producer of ours draws it with `seq`, under the shard's lock: within a shard
 * the segment never falls while `seq` grows.
 */
export function segmentsSql(schema: string): readonly string[] {
  return [
    ...['event', 'ack'].flatMap((table) => [
      `create sequence ${schema}.${table}_segment as int4 cache 1`,
      `select nextval('${schema}.${table}_segment')::int4 as segment`,
    ]),
    // state: 1 attached, 2 written now, 3 written by what is still open, 4 sealed, 5 counted, 6 detached
    `create table ${schema}.segment (
  name text not null,
  no int4 not null,
  state smallint not null,
  events bigint not null default 0,
  since timestamptz not null default clock_timestamp(),
  waiting text[] not null default '{}',
  primary key (name, no)
)`,
    `comment on column ${schema}.segment.state is '1 attached, 2 written now, 3 written by what is still open, 4 sealed, 5 counted, 6 detached'`,
    `insert into ${schema}.segment (name, no, state) values ('event', 1, 2), ('ack', 1, 2)`,

    // The table of the first version becomes the first segment.
    `drop trigger event_order on ${schema}.event`,
    `alter table ${schema}.event rename to event_1`,
    `alter index ${schema}.event_shard_seq rename to event_1_shard_seq`,
    `alter table ${schema}.event_1 add column segment int4 not null default 1`,
    `alter table ${schema}.event_1 alter column segment set default pg_sequence_last_value('${schema}.event_segment')::int4`,
    `create table ${schema}.event (like ${schema}.event_1 including defaults) partition by list (segment)`,
    `create index event_shard_seq on ${schema}.event (shard, seq)`,
    // Of ordered entries: an event finds its predecessor.
    `create index event_ordered on ${schema}.event (aggregateid, seq) where jsonb_exists(headers, 'previous')`,
    `alter table ${schema}.event attach partition ${schema}.event_1 for values in (1)`,
    // Held events whose segment was dropped.
    `create table ${schema}.event_0 partition of ${schema}.event for values in (0)`,
    `create or replace function ${schema}.event_order() returns trigger language plpgsql as $$
begin
  new.shard := get_byte(sha256(convert_to(new.aggregateid, 'UTF8')), 0) & 63;
  perform pg_advisory_xact_lock(3598, new.shard::int4);
  if new.segment <> pg_sequence_last_value('${schema}.event_segment') then
    raise exception using errcode = '40001', message = 'effectively-once: a new segment began while this event waited for its turn. Run the transaction again';
  end if;
  new.seq := nextval('${schema}.event_seq');
  return new;
end $$`,
    `create trigger event_order before insert on ${schema}.event for each row when (new.seq is null) execute function ${schema}.event_order()`,

    // The last event of each ordered aggregate, once its segment was dropped.
    `create table ${schema}.head (
  seq bigint not null,
  id uuid not null,
  aggregateid text not null primary key
)`,
    // Under the shard's lock, and by a statement of its own: it sees who committed while we waited for the lock.
    `create function ${schema}.event_previous() returns trigger language plpgsql as $$
declare
  _previous uuid;
begin
  if new.segment = 0 then
    return new;
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'EO003', message = 'effectively-once: ordered events need READ COMMITTED; a stricter level hides the event before this one';
  end if;
  perform pg_advisory_xact_lock(3598, new.shard::int4);
  select e.id into _previous from ${schema}.event e
   where e.aggregateid = new.aggregateid and jsonb_exists(e.headers, 'previous') and e.segment > 0 order by e.seq desc limit 1;
  if not found then
    select h.id into _previous from ${schema}.head h where h.aggregateid = new.aggregateid;
  end if;
  new.headers := jsonb_set(new.headers, '{previous}', coalesce(to_jsonb(_previous), 'null'));
  return new;
end $$`,
    `create trigger event_previous before insert on ${schema}.event for each row when (jsonb_exists(new.headers, 'previous')) execute function ${schema}.event_previous()`,

    // Insert-only: an updated cursor would slow down while an old snapshot is open.
    `create table ${schema}.ack (
  cursor bigint not null,
  token bigint not null,
  trying_to bigint,
  counted bigint not null,
  event_segment int4 not null,
  segment int4 not null default pg_sequence_last_value('${schema}.ack_segment')::int4,
  attempt smallint not null,
  shard smallint not null,
  destination text not null,
  primary key (destination, shard, cursor, token, segment)
) partition by list (segment)`,
    `create table ${schema}.ack_1 partition of ${schema}.ack for values in (1)`,
  ]
}
