import { chunkTableSql } from './sql/chunk.ts'
import { claimFunctionsSql, freshClaimSql, limitedClaimSql, notedClaimSql } from './sql/claim-function.ts'
import { inboxTablesSql } from './sql/inbox-tables.ts'
import { delayedTableSql } from './sql/outbox-delayed.ts'
import { namespaceTablesSql } from './sql/namespace-tables.ts'
import { segmentsSql } from './sql/outbox-segments.ts'
import { outboxViewSql } from './sql/outbox-view.ts'
import { redriveTablesSql } from './sql/redrive-tables.ts'
import { segmentNowSql } from './sql/segment-now.ts'
import { statusIndexSql } from './sql/status.ts'
import { sweepTablesSql } from './sql/sweep-tables.ts'

/**
 * Numbered and append-only: a released migration never changes. One statement per entry, so that every client can run
 * them.
 */
export interface Migration {
  readonly version: number
  readonly name: string
  statements(schema: string): readonly string[]
}

export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    name: 'records, answers, steps, events',
    statements: (schema) => [
      // One row per identity, never partitioned: a unique index holds only inside a partition.
      `create table ${schema}.record (
  token bigint not null,
  life bigint not null,
  expires_at timestamptz not null,
  forget_at timestamptz not null,
  id uuid not null primary key,
  scope uuid not null,
  fp uuid not null,
  fp_version smallint not null,
  state smallint not null,
  attempt smallint not null,
  lease_until timestamptz
)`,
      `comment on column ${schema}.record.state is '1 in progress, 2 completed, 3 unknown'`,
      // Only operations that are not completed. Recovery and operators search them, and only leased operations write
      // them.
      `create index record_open on ${schema}.record (id) where state <> 2`,
      // Answers by the day they expire: a whole day is dropped, so rows are not deleted.
      `create table ${schema}.answer (
  token bigint not null,
  id uuid not null,
  day date not null,
  status smallint not null,
  kept boolean not null,
  headers text,
  body bytea
) partition by range (day)`,
      `create index answer_id on ${schema}.answer (id)`,
      `create table ${schema}.answer_default partition of ${schema}.answer default`,
      `create table ${schema}.step (
  id uuid not null,
  life bigint not null,
  state smallint not null check (state in (1, 2)),
  name text not null check (length(name) <= 200),
  result text,
  primary key (id, life, name)
)`,
      `comment on column ${schema}.step.state is '1 started, 2 done'`,
      `create table ${schema}.recover (
  id uuid not null primary key,
  namespace text not null,
  name text not null,
  input text not null
)`,
      `create sequence ${schema}.event_seq as bigint cache 1`,
      `create table ${schema}.event (
  seq bigint not null,
  created_at timestamptz not null default clock_timestamp(),
  id uuid not null default gen_random_uuid(),
  shard smallint not null,
  aggregatetype text not null,
  aggregateid text not null,
  type text not null,
  payload jsonb,
  headers jsonb
)`,
      `create index event_shard_seq on ${schema}.event (shard, seq)`,
      // Keeps the order for producers that write plain SQL: lock the shard, then draw the number. Our own statements do
      // both themselves.
      `create function ${schema}.event_order() returns trigger language plpgsql as $$
begin
  new.shard := get_byte(sha256(convert_to(new.aggregateid, 'UTF8')), 0) & 63;
  perform pg_advisory_xact_lock(3598, new.shard::int4);
  new.seq := nextval('${schema}.event_seq');
  return new;
end $$`,
      `create trigger event_order before insert on ${schema}.event for each row when (new.seq is null) execute function ${schema}.event_order()`,
      // A statement that must prevent the COMMIT behind it raises an error. A row count would be read too late.
      `create function ${schema}.fail(state text) returns boolean language plpgsql as $$
begin
  raise exception using errcode = state, message = case state
    when 'EO001' then 'effectively-once: the lease was taken over'
    when 'EO002' then 'effectively-once: the claiming transaction was ended by the handler'
    else 'effectively-once: refused' end;
end $$`,
      ...claimFunctionsSql(schema),
    ],
  },
  {
    version: 2,
    name: 'relays',
    statements: (schema) => [
      // The live relays of each destination, which share its shards, and until when each counts as alive.
      `create table ${schema}.relay (
  destination text not null,
  id uuid not null,
  until timestamptz not null,
  primary key (destination, id)
)`,
      // Only leases and heartbeats write this table.
      `create table ${schema}.shard (
  token bigint not null default 0,
  lease_until timestamptz not null default '-infinity',
  shard smallint not null,
  destination text not null,
  primary key (destination, shard)
) with (fillfactor = 50)`,
      ...segmentsSql(schema),
      `create table ${schema}.held (
  seq bigint not null,
  due_at timestamptz,
  held_at timestamptz not null default clock_timestamp(),
  attempts int4 not null,
  resend int4 not null default 0,
  shard smallint not null,
  state smallint not null,
  destination text not null,
  aggregateid text not null,
  reason text,
  primary key (destination, shard, seq)
)`,
      `comment on column ${schema}.held.state is '1 waiting, 2 delayed, 3 parked, 4 skipped'`,
      `create index held_aggregate on ${schema}.held (destination, shard, aggregateid, seq)`,
      `create index held_due on ${schema}.held (destination, due_at) where due_at is not null`,
      `create sequence ${schema}.resend_no as int4 cache 1`,
    ],
  },
  { version: 3, name: 'consumers', statements: inboxTablesSql },
  { version: 4, name: 'redrives', statements: redriveTablesSql },
  {
    version: 5,
    name: 'tries of held events',
    // How often the event was in flight when its relay died.
    statements: (schema) => [`alter table ${schema}.held add column tried int4 not null default 0`],
  },
  { version: 6, name: 'a view for plain SQL and ordered events', statements: outboxViewSql },
  { version: 7, name: 'the state of the sweeper', statements: sweepTablesSql },
  { version: 8, name: 'namespaces', statements: namespaceTablesSql },
  { version: 9, name: 'the current segment as a row', statements: segmentNowSql },
  { version: 10, name: "deadlines that respect the owner's limits", statements: limitedClaimSql },
  { version: 11, name: 'a cheaper claim', statements: freshClaimSql },
  { version: 12, name: 'leased operations for operators', statements: notedClaimSql },
  { version: 13, name: 'an index for the parked letters of a consumer', statements: statusIndexSql },
  { version: 14, name: 'delayed events that can be cancelled', statements: delayedTableSql },
  { version: 15, name: 'recorded streams', statements: chunkTableSql },
]

export const SCHEMA_VERSION: number = MIGRATIONS.length
