import { INBOX_TABLES } from './inbox-tables.ts'
import { NAMESPACE_TABLES } from './namespace-tables.ts'
import { REDRIVE_TABLES } from './redrive-tables.ts'

/** Numbered and append-only: a released migration never changes. */
export interface Migration {
  readonly version: number
  readonly statements: readonly string[]
}

/** Milliseconds by SQLite's clock. The process's own clock is never used, so that all times come from one clock. */
export const NOW = `cast(unixepoch('subsec') * 1000 as integer)`

export const VERSION_TABLE = `create table if not exists effectively_once_version (
  version integer not null primary key,
  applied_at integer not null
)`

export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    statements: [
      // state: 1 in progress, 2 completed, 3 unknown. Times are milliseconds, tokens microseconds.
      `create table effectively_once_record (
  id text not null primary key,
  scope text not null,
  fp text not null,
  fp_version integer not null,
  state integer not null,
  token integer not null,
  life integer not null,
  attempt integer not null,
  lease_until integer,
  expires_at integer not null,
  forget_at integer not null
) without rowid`,
      `create index effectively_once_record_open on effectively_once_record (state) where state <> 2`,
      `create index effectively_once_record_forget on effectively_once_record (forget_at) where state = 2`,
      // day: the UTC day on which the answer expires.
      `create table effectively_once_answer (
  id text not null primary key,
  day text not null,
  status integer not null,
  headers text not null,
  body blob,
  kept integer not null
)`,
      `create index effectively_once_answer_day on effectively_once_answer (day)`,
      // state: 1 started, 2 done
      `create table effectively_once_step (
  id text not null,
  life integer not null,
  name text not null,
  state integer not null,
  result text,
  primary key (id, life, name)
)`,
      `create table effectively_once_recover (
  id text not null primary key,
  namespace text not null,
  name text not null,
  input text not null
)`,
      // With one writer, the order of seq is the order of the commits. A number never repeats, even after a deletion.
      `create table effectively_once_event (
  seq integer primary key autoincrement,
  shard integer not null,
  id text not null unique,
  aggregatetype text not null,
  aggregateid text not null,
  type text not null,
  payload text not null,
  headers text not null,
  created_at integer not null
)`,
    ],
  },
  {
    version: 2,
    statements: [
      `create index effectively_once_event_shard on effectively_once_event (shard, seq)`,
      // Finds the predecessor of an ordered event.
      `create index effectively_once_event_ordered on effectively_once_event (aggregateid, seq)
  where json_type(headers, '$.previous') is not null`,
      // The last event of each ordered aggregate, after it was deleted.
      `create table effectively_once_head (
  aggregateid text not null primary key,
  seq integer not null,
  id text not null
) without rowid`,
      `create table effectively_once_resend (no integer primary key autoincrement)`,
      `create table effectively_once_relay (
  destination text not null,
  id text not null,
  until integer not null,
  primary key (destination, id)
) without rowid`,
      `create table effectively_once_shard (
  destination text not null,
  shard integer not null,
  token integer not null default 0,
  lease_until integer not null default 0,
  primary key (destination, shard)
) without rowid`,
      // One row per shard. With one writer, updating a cursor slows nothing down.
      `create table effectively_once_ack (
  destination text not null,
  shard integer not null,
  cursor integer not null,
  trying_to integer,
  attempt integer not null,
  primary key (destination, shard)
) without rowid`,
      // state: 1 waiting, 2 delayed, 3 parked, 4 skipped
      `create table effectively_once_held (
  destination text not null,
  shard integer not null,
  seq integer not null,
  aggregateid text not null,
  state integer not null,
  attempts integer not null,
  resend integer not null default 0,
  due_at integer,
  held_at integer not null,
  reason text,
  primary key (destination, shard, seq)
) without rowid`,
      `create index effectively_once_held_aggregate on effectively_once_held (destination, shard, aggregateid, seq)`,
      `create index effectively_once_held_due on effectively_once_held (destination, due_at) where due_at is not null`,
    ],
  },
  { version: 3, statements: INBOX_TABLES },
  { version: 4, statements: REDRIVE_TABLES },
  {
    version: 5,
    // How often a held event was in flight when its relay died.
    statements: ['alter table effectively_once_held add column tried integer not null default 0'],
  },
  {
    version: 6,
    // The token of the relay that wrote the intent. Only that relay may take it back.
    statements: ['alter table effectively_once_ack add column token integer not null default 0'],
  },
  {
    version: 7,
    // Consumers remember for different times, so the sweeper looks for the old rows of each consumer.
    statements: [
      'create index effectively_once_inbox_consumer on effectively_once_inbox (consumer, at)',
      'drop index effectively_once_inbox_at',
    ],
  },
  { version: 8, statements: NAMESPACE_TABLES },
  {
    version: 9,
    // The columns that show a leased operation to operators.
    statements: ['namespace', 'route', 'label'].map(
      (column) => `alter table effectively_once_record add column ${column} text`,
    ),
  },
  {
    version: 10,
    statements: [
      'create index effectively_once_dead_letter_parked on effectively_once_dead_letter (consumer, seq) where state = 1',
    ],
  },
  {
    version: 11,
    // Delayed events that were taken to be sent, or cancelled: state 2 or 3.
    statements: [
      'create table effectively_once_delayed (id text not null primary key, state integer not null) without rowid',
    ],
  },
  {
    version: 12,
    // The chunks of recorded streams. A position is written once.
    statements: [
      `create table effectively_once_chunk (
  id text not null,
  life integer not null,
  start integer not null,
  body blob not null,
  primary key (id, life, start)
)`,
    ],
  },
]
