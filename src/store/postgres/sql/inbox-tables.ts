/** Migration 3. Nothing on a consumer's hot path updates or deletes a row. */
export function inboxTablesSql(schema: string): readonly string[] {
  return [
    // The consumers, and how long their messages are remembered.
    `create table ${schema}.consumer (
  name text not null primary key,
  inbox_ms float8 not null,
  remember_ms float8 not null,
  letters_ms float8 not null,
  seen_at timestamptz not null default clock_timestamp()
)`,
    // A row exists if and only if its effect committed. Never partitioned: a unique index holds only inside a partition.
    `create table ${schema}.inbox (
  at timestamptz not null default clock_timestamp(),
  id uuid not null primary key,
  consumer text not null,
  source text not null,
  message text not null
)`,
    // A compact old inbox id.
    `create table ${schema}.mark (
  marked_at timestamptz not null default clock_timestamp(),
  forget_at timestamptz not null,
  id uuid not null primary key
)`,
    // Only messages that failed or were redelivered. The row is deleted when the message succeeds or is parked.
    `create table ${schema}.attempt (
  updated_at timestamptz not null default clock_timestamp(),
  attempts int4 not null,
  unfinished int4 not null,
  id uuid not null primary key,
  consumer text not null,
  timeline jsonb not null default '[]'
)`,
    `create table ${schema}.dead_letter (
  seq bigint generated always as identity,
  parked_at timestamptz not null default clock_timestamp(),
  settled_at timestamptz,
  id uuid not null primary key,
  previous uuid,
  attempts int4 not null,
  state smallint not null,
  consumer text not null,
  source text not null,
  message text not null,
  type text not null,
  aggregate text,
  tenant text,
  reason text not null,
  error text,
  fingerprint text not null,
  traceparent text,
  timeline jsonb not null,
  causes jsonb not null,
  headers jsonb not null,
  body text not null,
  shown text
)`,
    `comment on column ${schema}.dead_letter.state is '1 parked, 2 skipped, 3 redriven, 4 discarded'`,
    `create index dead_letter_aggregate on ${schema}.dead_letter (consumer, source, aggregate, seq) where state = 1`,
    `create index dead_letter_seq on ${schema}.dead_letter (seq)`,
    // The consumer's position in a log. It commits with the effects, so a broker that loses the position does no harm.
    `create table ${schema}.position (
  next bigint not null,
  consumer text not null,
  source text not null,
  partition text not null,
  primary key (consumer, source, partition)
) with (fillfactor = 50)`,
  ]
}
