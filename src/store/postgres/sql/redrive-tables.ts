/** Migration 4: redrives, and who did what and why. */
export function redriveTablesSql(schema: string): readonly string[] {
  return [
    `create table ${schema}.redrive (
  id int4 generated always as identity primary key,
  round int4 not null default 1,
  token bigint not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  lease_until timestamptz,
  rate float8 not null,
  pause_at float8 not null,
  canary int4 not null,
  canary_stops boolean not null,
  state smallint not null,
  consumer text not null,
  reason text,
  actor text not null,
  why text not null
) with (fillfactor = 50)`,
    `comment on column ${schema}.redrive.state is '1 preparing, 2 running, 3 paused, 4 done, 5 aborted'`,
    // A consumer has one redrive at a time: two would run letters of one aggregate concurrently.
    `create unique index redrive_active on ${schema}.redrive (consumer) where state in (1, 2, 3)`,
    `create table ${schema}.redrive_item (
  redrive int4 not null,
  ord int4 not null,
  round int4 not null default 0,
  starts int4 not null default 0,
  state smallint not null default 0,
  letter uuid not null,
  body text,
  primary key (redrive, ord)
)`,
    `comment on column ${schema}.redrive_item.state is '0 pending, 1 applied, 2 already, 3 failed, 4 blocked, 5 gone'`,
    `create index redrive_item_pending on ${schema}.redrive_item (redrive, ord) where state = 0`,
    `create table ${schema}.audit (
  seq bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  redrive int4,
  actor text not null,
  action text not null,
  why text not null,
  detail jsonb not null
)`,
  ]
}
