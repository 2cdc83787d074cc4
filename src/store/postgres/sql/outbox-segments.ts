/**
 * Events and acknowledgements are lists of segments. A sequence says which segment is the current one; since migration
 * 9 a row says it (segment-now.ts). Old segments are dropped whole. So no event is ever updated or deleted, and the
 * sweeper that turns a segment over waits for nobody.
 *
 * The segment's number is the column's default. A producer draws it together with `seq`, under the shard's lock. So
 * within a shard, the segment never falls while `seq` grows.
 */
export function segmentsSql(schema: string): readonly string[] {
  return [
    ...['event', 'ack'].flatMap((table) => [
      `create sequence ${schema}.${table}_segment as int4 cache 1`,
      `select nextval('${schema}.${table}_segment')::int4 as segment`,
    ]),
    // state: 1 attached, 2 current, 3 left to transactions that are still open, 4 sealed, 5 counted, 6 detached
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
    `alter table ${schema}.event attach partition ${schema}.event_1 for values in (1)`,
    // Held events whose segment was dropped.
    `create table ${schema}.event_0 partition of ${schema}.event for values in (0)`,
    // The events of ordered types: each event finds its predecessor here. The table is separate, so that other events
    // pay nothing. Rows are only inserted, so that an old snapshot slows nothing down. The sweeper removes all but the
    // last row of an aggregate.
    `create table ${schema}.link (
  seq bigint not null,
  id uuid not null,
  aggregateid text not null,
  primary key (aggregateid, seq)
)`,
    // Plain SQL leaves seq out: lock the shard, then draw the number. An ordered event reads its predecessor under the
    // same lock. A separate statement does this, because it sees what was committed while the lock was awaited.
    `create or replace function ${schema}.event_order() returns trigger language plpgsql as $$
declare
  _previous uuid;
begin
  if new.seq is null then
    new.shard := get_byte(sha256(convert_to(new.aggregateid, 'UTF8')), 0) & 63;
    perform pg_advisory_xact_lock(3598, new.shard::int4);
    if new.segment <> pg_sequence_last_value('${schema}.event_segment') then
      raise exception using errcode = '40001', message = 'effectively-once: a new segment began while this event waited for its turn. Run the transaction again';
    end if;
    new.seq := nextval('${schema}.event_seq');
  end if;
  if jsonb_exists(new.headers, 'previous') and new.segment > 0 then
    if current_setting('transaction_isolation') <> 'read committed' then
      raise exception using errcode = 'EO003', message = 'effectively-once: ordered events need READ COMMITTED; a stricter level hides the event before this one';
    end if;
    perform pg_advisory_xact_lock(3598, new.shard::int4);
    select l.id into _previous from ${schema}.link l where l.aggregateid = new.aggregateid order by l.seq desc limit 1;
    insert into ${schema}.link (aggregateid, seq, id) values (new.aggregateid, new.seq, new.id);
    new.headers := jsonb_set(new.headers, '{previous}', coalesce(to_jsonb(_previous), 'null'));
  end if;
  return new;
end $$`,
    `create trigger event_order before insert on ${schema}.event for each row
  when (new.seq is null or jsonb_exists(new.headers, 'previous')) execute function ${schema}.event_order()`,

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
