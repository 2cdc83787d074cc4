/** The state that sweepers share, so that no sweeper repeats the work of another. */
export function sweepTablesSql(schema: string): readonly string[] {
  return [
    // The current sweeper and the end of its lease. `replay_ms`: the longest `replayFor` that any process has asked
    // for.
    `create table ${schema}.sweeper (
  until timestamptz not null,
  replay_ms float8 not null default 0,
  holder uuid not null,
  name text not null primary key
)`,
    // Parts of large tables, and when a row in them is due. Only the sweeper writes this table, so the hot path does
    // not pay for it.
    `create table ${schema}.sweep_part (
  due_at timestamptz not null,
  no int4 not null,
  name text not null,
  primary key (name, no)
)`,
    // Finds the days and the expired answers of the default partition without a scan.
    `create index answer_default_day on ${schema}.answer_default (day)`,
  ]
}
