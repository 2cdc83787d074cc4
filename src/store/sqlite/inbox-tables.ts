/** Migration 3: what consumers need. */
export const INBOX_TABLES: readonly string[] = [
  `create table effectively_once_consumer (
  name text not null primary key,
  inbox_ms integer not null,
  remember_ms integer not null,
  letters_ms integer not null,
  seen_at integer not null
) without rowid`,
  // A row exists if and only if its effect committed.
  `create table effectively_once_inbox (
  id text not null primary key,
  consumer text not null,
  source text not null,
  message text not null,
  at integer not null
) without rowid`,
  `create index effectively_once_inbox_at on effectively_once_inbox (at)`,
  // A compact old inbox id.
  `create table effectively_once_mark (
  id text not null primary key,
  forget_at integer not null
) without rowid`,
  `create index effectively_once_mark_forget on effectively_once_mark (forget_at)`,
  `create table effectively_once_attempt (
  id text not null primary key,
  consumer text not null,
  attempts integer not null,
  unfinished integer not null,
  timeline text not null,
  updated_at integer not null
) without rowid`,
  // state: 1 parked, 2 skipped, 3 redriven, 4 discarded
  `create table effectively_once_dead_letter (
  seq integer primary key autoincrement,
  id text not null unique,
  consumer text not null,
  source text not null,
  message text not null,
  type text not null,
  aggregate text,
  previous text,
  tenant text,
  state integer not null,
  reason text not null,
  error text,
  fingerprint text not null,
  traceparent text,
  attempts integer not null,
  timeline text not null,
  causes text not null,
  headers text not null,
  body text not null,
  shown text,
  parked_at integer not null,
  settled_at integer
)`,
  `create index effectively_once_dead_letter_aggregate on effectively_once_dead_letter (consumer, source, aggregate, seq) where state = 1`,
  `create table effectively_once_position (
  consumer text not null,
  source text not null,
  partition text not null,
  next integer not null,
  primary key (consumer, source, partition)
) without rowid`,
]
