import { NAMESPACES_MAX } from '../../limits.ts'

/**
 * Migration 7: namespaces have numbers. Existing rows belong to number 0, and so do the rows that older code still
 * writes.
 */
export const NAMESPACE_TABLES: readonly string[] = [
  `create table effectively_once_namespace (
  no integer not null primary key check (no between 0 and ${NAMESPACES_MAX - 1}),
  name text not null unique
)`,
  // Consumers and destinations from before namespaces. They belong to number 0, unless another namespace starts that
  // may be their owner.
  `create table effectively_once_unclaimed (
  kind text not null,
  name text not null,
  primary key (kind, name)
) without rowid`,
  // Like `head`, the last event of each ordered aggregate, but for all namespaces except number 0.
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
 * The namespaces that wrote rows before they had numbers: our own events and sealed inputs name them. Ids of events
 * that other code wrote are not UUIDs of version 8.
 */
export const SEEN_NAMESPACES = `select json_extract(headers, '$.source') as name from effectively_once_event
  where substr(id, 15, 1) = '8' and json_extract(headers, '$.source') is not null
  union select namespace from effectively_once_recover order by 1`
