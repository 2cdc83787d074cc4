/** What sweepers share, so that none of them looks where another one has looked. */
export function sweepTablesSql(schema: string): readonly string[] {
  return [
    // Who sweeps, and until when it is waited for; how far ahead answers expire, of all that was ever asked for.
    `create table ${schema}.sweeper (
  until timestamptz not null,
  replay_ms float8 not null default 0,
  holder uuid not null,
  name text not null primary key
)`,
    // Parts of large tables, and when something in them is due. The sweeper's own notes: nobody on the hot path pays.
    `create table ${schema}.sweep_part (
  due_at timestamptz not null,
  no int4 not null,
  name text not null,
  primary key (name, no)
)`,
    // Whether a day has answers in the default partition, and which are past, without looking through it.
    `create index answer_default_day on ${schema}.answer_default (day)`,
  ]
}
