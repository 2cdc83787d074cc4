import { SHARDS, NAMESPACES_MAX } from '../../../limits.ts'
import { shardLocks } from './lock.ts'
import { seenNamespacesSql } from './namespace.ts'

/**
 * Namespaces have numbers. Existing rows belong to number 0, and so do the rows that older code still writes. So no
 * existing row has to change.
 */
export function namespaceTablesSql(schema: string): readonly string[] {
  return [
    `create table ${schema}.namespace (
  no smallint not null primary key check (no between 0 and ${NAMESPACES_MAX - 1}),
  name text not null unique
)`,
    // Consumers and destinations from before namespaces. They belong to number 0, unless another namespace starts that
    // may be their owner.
    `create table ${schema}.unclaimed (
  kind text not null,
  name text not null,
  primary key (kind, name)
)`,
    // This comes first, because it may take a while, and nothing that others use is locked yet.
    adoptionSql(schema),
    // Like `link`, the events of ordered types, but for all namespaces except number 0.
    `create table ${schema}.namespace_link (
  seq bigint not null,
  id uuid not null,
  no smallint not null,
  aggregateid text not null,
  primary key (no, aggregateid, seq)
)`,
    `alter table ${schema}.audit add column namespace smallint not null default 0`,
    `create or replace view ${schema}.outbox as
select e.seq, e.created_at, e.id, e.shard, e.aggregatetype, e.aggregateid, e.type, e.payload, e.headers,
       (select n.name from ${schema}.namespace n where n.no = e.shard / ${SHARDS}) as namespace
  from ${schema}.event e`,
    outboxInsertSql(schema),
  ]
}

function adoptionSql(schema: string): string {
  return `do $$
declare
  _seen text[];
  _adopt text := nullif(current_setting('effectively_once.adopt', true), '');
begin
  select coalesce(array_agg(s.name order by s.name), '{}') into _seen from (${seenNamespacesSql(schema)}) s;
  if _adopt is null and cardinality(_seen) > 1 then
    raise exception using errcode = 'EO005', message = format(
      'effectively-once: %s have events in this database, but the owner of its consumers and destinations is not known', array_to_string(_seen, ', '));
  end if;
  if _adopt is not null or cardinality(_seen) = 1 then
    insert into ${schema}.namespace (no, name) values (0, coalesce(_adopt, _seen[1]));
  end if;
  if _adopt is null then
    insert into ${schema}.unclaimed (kind, name)
    select 'consumer', c.name from ${schema}.consumer c union all select distinct 'destination', s.destination from ${schema}.shard s;
  end if;
end $$`
}

/**
 * As in outbox-view.ts, but with a namespace. It is the namespace that the row names. Without a name, the shard of the
 * row decides: our own statements set it, and older statements set a shard of number 0. With neither, it is the only
 * namespace that exists.
 * `more` runs at the end, for each event.
 */
export function outboxInsertSql(schema: string, more = ''): string {
  return `create or replace function ${schema}.outbox_insert() returns trigger language plpgsql as $$
declare
  _no int4;
  _known text[];
  _previous uuid;
begin
  if new.namespace is null and new.shard is not null then
    _no := new.shard / ${SHARDS};
  else
    select array_agg(n.name order by n.no), min(n.no) filter (where n.name = coalesce(new.namespace, n.name)) into _known, _no from ${schema}.namespace n;
    if new.namespace is null and cardinality(_known) > 1 then
      raise exception using errcode = 'EO006', message = format(
        'effectively-once: several namespaces publish here (%s): say in the column namespace whose event it is', array_to_string(_known, ', '));
    end if;
    if new.namespace is not null and _no is null then
      raise exception using errcode = 'EO006', message = format(
        'effectively-once: there is no namespace ''%s'' here; known: %s', new.namespace, coalesce(array_to_string(_known, ', '), 'none yet'));
    end if;
    _no := coalesce(_no, 0);
  end if;
  new.id := coalesce(new.id, gen_random_uuid());
  new.created_at := coalesce(new.created_at, clock_timestamp());
  new.shard := _no * ${SHARDS} + (get_byte(sha256(convert_to(new.aggregateid, 'UTF8')), 0) & ${SHARDS - 1});
${shardLocks(schema, 'new.shard::int4')
  .map((lock) => `  perform ${lock};`)
  .join('\n')}
  new.seq := nextval('${schema}.event_seq');
  if jsonb_exists(new.headers, 'previous') then
    if current_setting('transaction_isolation') <> 'read committed' then
      raise exception using errcode = 'EO003', message = 'effectively-once: ordered events need READ COMMITTED; a stricter level hides the event before this one';
    end if;
    if _no = 0 then
      select l.id into _previous from ${schema}.link l where l.aggregateid = new.aggregateid order by l.seq desc limit 1;
      insert into ${schema}.link (aggregateid, seq, id) values (new.aggregateid, new.seq, new.id);
    else
      select l.id into _previous from ${schema}.namespace_link l where l.no = _no and l.aggregateid = new.aggregateid order by l.seq desc limit 1;
      insert into ${schema}.namespace_link (no, aggregateid, seq, id) values (_no, new.aggregateid, new.seq, new.id);
    end if;
    new.headers := jsonb_set(new.headers, '{previous}', coalesce(to_jsonb(_previous), 'null'));
  end if;
  insert into ${schema}.event (seq, shard, id, aggregatetype, aggregateid, type, payload, headers, created_at)
  values (new.seq, new.shard, new.id, new.aggregatetype, new.aggregateid, new.type, new.payload, new.headers, new.created_at);${more}
  return new;
end $$`
}
