import { EVENT_LOCK_CLASS } from './lock.ts'

/**
 * The view for events whose number or predecessor the database must find: events of plain SQL, and ordered events. A
 * trigger on the table itself would run for all other events, too, and its condition alone costs a tenth of a commit.
 *
 * Locks, per row: the shard's advisory lock until the end of the transaction. Under this lock, the number is drawn, the
 * segment is read (a default of the table) and the predecessor is looked up. A separate statement looks it up, because
 * it sees what was committed while the lock was awaited. The table refuses an event without a number.
 */
export function outboxViewSql(schema: string): readonly string[] {
  return [
    `drop trigger event_order on ${schema}.event`,
    `drop function ${schema}.event_order()`,
    `create view ${schema}.outbox as
select e.seq, e.created_at, e.id, e.shard, e.aggregatetype, e.aggregateid, e.type, e.payload, e.headers from ${schema}.event e`,
    `create function ${schema}.outbox_insert() returns trigger language plpgsql as $$
declare
  _previous uuid;
begin
  new.id := coalesce(new.id, gen_random_uuid());
  new.created_at := coalesce(new.created_at, clock_timestamp());
  new.shard := get_byte(sha256(convert_to(new.aggregateid, 'UTF8')), 0) & 63;
  perform pg_advisory_xact_lock(${EVENT_LOCK_CLASS}, new.shard::int4);
  new.seq := nextval('${schema}.event_seq');
  if jsonb_exists(new.headers, 'previous') then
    if current_setting('transaction_isolation') <> 'read committed' then
      raise exception using errcode = 'EO003', message = 'effectively-once: ordered events need READ COMMITTED; a stricter level hides the event before this one';
    end if;
    select l.id into _previous from ${schema}.link l where l.aggregateid = new.aggregateid order by l.seq desc limit 1;
    insert into ${schema}.link (aggregateid, seq, id) values (new.aggregateid, new.seq, new.id);
    new.headers := jsonb_set(new.headers, '{previous}', coalesce(to_jsonb(_previous), 'null'));
  end if;
  insert into ${schema}.event (seq, shard, id, aggregatetype, aggregateid, type, payload, headers, created_at)
  values (new.seq, new.shard, new.id, new.aggregatetype, new.aggregateid, new.type, new.payload, new.headers, new.created_at);
  return new;
end $$`,
    `create trigger outbox_insert instead of insert on ${schema}.outbox for each row execute function ${schema}.outbox_insert()`,
  ]
}
