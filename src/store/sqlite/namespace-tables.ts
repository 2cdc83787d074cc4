import { NAMESPACES_MAX } from '../../limits.ts'

/**
 * Migration 7: namespaces have numbers. What was there before belongs to number 0, and so does what code from before goes
 * on writing.
 */
export const NAMESPACE_TABLES: readonly string[] = [
  `create table effectively_once_namespace (
  no integer not null primary key check (no between 0 and ${NAMESPACES_MAX - 1}),
  name text not null unique
)`,
  // Consumers and destinations from before: number 0's, unless somebody comes who may be the one they belong to.
  `create table effectively_once_unclaimed (
  kind text not null,
  name text not null,
  primary key (kind, name)
) without rowid`,
  // The last event of each ordered aggregate, as in head, of all namespaces but number 0.
  `create table effectively_once_namespace_head (
  shard integer not null,
  aggregateid text not null,
  seq integer not null,
  id text not null,
  primary key (shard, aggregateid)
) without rowid`,
  `alter table effectively_once_audit add column namespace integer not null default 0`,
  `insert into effectively_once_unclaimed (kind, name)
  select 'consumer', name from effectively_once_consumer
  union all select distinct 'destination', destination from effectively_once_shard`,
]

/**
 * Who has left rows from before there were numbers: events of ours tell it, and sealed input. Ids of events that somebody
 * else wrote are no UUIDs of version 8.
 */
export const SEEN_NAMESPACES = `select json_extract(headers, '$.source') as name from effectively_once_event
  where substr(id, 15, 1) = '8' and json_extract(headers, '$.source') is not null
  union select namespace from effectively_once_recover order by 1`
