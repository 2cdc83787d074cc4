/** Migration 4: redrives, and who did what and why. */
export const REDRIVE_TABLES: readonly string[] = [
  // state: 1 preparing, 2 running, 3 paused, 4 done, 5 aborted
  `create table effectively_once_redrive (
  id integer primary key autoincrement,
  consumer text not null,
  state integer not null,
  round integer not null default 1,
  token integer not null default 0,
  lease_until integer,
  rate real not null,
  pause_at real not null,
  canary integer not null,
  canary_stops integer not null,
  reason text,
  actor text not null,
  why text not null,
  created_at integer not null,
  ended_at integer
)`,
  // A consumer has one redrive at a time: two would run letters of one aggregate concurrently.
  `create unique index effectively_once_redrive_active on effectively_once_redrive (consumer) where state in (1, 2, 3)`,
  // state: 0 pending, 1 applied, 2 already, 3 failed, 4 blocked, 5 gone
  `create table effectively_once_redrive_item (
  redrive integer not null,
  ord integer not null,
  letter text not null,
  state integer not null default 0,
  round integer not null default 0,
  starts integer not null default 0,
  body text,
  primary key (redrive, ord)
) without rowid`,
  `create index effectively_once_redrive_item_pending on effectively_once_redrive_item (redrive, ord) where state = 0`,
  `create table effectively_once_audit (
  seq integer primary key autoincrement,
  at integer not null,
  actor text not null,
  action text not null,
  redrive integer,
  why text not null,
  detail text not null
)`,
]
