import { NAMESPACES_MAX, SHARDS } from '../../../limits.ts'
import { namespacesLock } from './lock.ts'

/** The namespace that the stored name of a consumer belongs to: its number, as text. See namespaced/names.ts. */
export function numberIn(column: string): string {
  return `case when strpos(${column}, chr(31)) = 0 then '0' else split_part(${column}, chr(31), 1) end`
}

/**
 * The number of a namespace, which is registered when it is new; no row when somebody else registers one at this moment,
 * or was quicker. Never waits: whoever registers in a transaction holds the lock until that ends. $1 name
 */
export function registerSql(schema: string): string {
  return `
with k as materialized (
  select n.no from ${schema}.namespace n where n.name = $1::text
), l as materialized (
  select case when not exists (select 1 from k) then pg_try_advisory_xact_lock(${namespacesLock(schema)}) end as had
), i as (
  insert into ${schema}.namespace (no, name)
  select m.no, $1::text from l, (select coalesce(max(n.no) + 1, 0) as no from ${schema}.namespace n) m
   where l.had and m.no < ${NAMESPACES_MAX}
  on conflict do nothing returning no
)
select no::int4 as no from k union all select no::int4 from i`
}

export function namespacesSql(schema: string): string {
  return `select no::int4 as no, name from ${schema}.namespace order by no`
}

/** Number 0 settles whose a name of before is by using it. $1 number, $2 kind, $3 name */
export function claimNameSql(schema: string): string {
  return `
with d as (
  delete from ${schema}.unclaimed u where $1::int4 = 0 and u.kind = $2::text and u.name = $3::text
)
select $1::int4 = 0 or not exists (select 1 from ${schema}.unclaimed u where u.kind = $2::text and u.name = $3::text) as free`
}

/** Nobody registers one until the transaction ends; a statement of its own, so that the next one sees who did before. */
export function namespacesLockSql(schema: string): string {
  return `select pg_advisory_xact_lock(${namespacesLock(schema)})::text as locked`
}

/** Gives number 0 a name, unless it has one, and with it everything of before. $1 name */
export function adoptSql(schema: string): string {
  return `
with i as (
  insert into ${schema}.namespace (no, name)
  select 0, $1::text where not exists (select 1 from ${schema}.namespace n where n.no = 0 or n.name = $1::text)
  returning name
), o as (
  select name from i union all select n.name from ${schema}.namespace n where n.no = 0
), d as (
  delete from ${schema}.unclaimed where exists (select 1 from o where o.name = $1::text)
)
select o.name as owner from o`
}

/** For migrations that see rows of several namespaces: whose they are. $1 name */
export const ADOPT_SETTING_SQL: string = `select set_config('effectively_once.adopt', $1::text, true) as adopt`

/**
 * Who has left rows from before there were numbers: events of ours tell it, and sealed input. Ids of events that plain SQL
 * wrote are no UUIDs of version 8, and their source may be anything.
 */
export function seenNamespacesSql(schema: string): string {
  return `select e.headers ->> 'source' as name from ${schema}.event e where substr(e.id::text, 15, 1) = '8' and e.headers ->> 'source' is not null
   union select c.namespace from ${schema}.recover c`
}

/** The namespaces of which a segment has events. Through the table: rights to segments are nobody's but the owner's. */
export function namespacesIn(schema: string, segment: number): string {
  return `select n.no from (select 0 as no union select n.no from ${schema}.namespace n) n
   where exists (select 1 from ${schema}.event e where e.segment = ${segment} and e.shard >= n.no * ${SHARDS} and e.shard < (n.no + 1) * ${SHARDS})`
}
