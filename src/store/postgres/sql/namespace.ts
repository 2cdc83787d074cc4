import { NAMESPACES_MAX, SHARDS } from '../../../limits.ts'
import { namespacesLock } from './lock.ts'

/** The number, as text, of the namespace that a stored consumer name belongs to. See namespaced/names.ts. */
export function numberIn(column: string): string {
  return `case when strpos(${column}, chr(31)) = 0 then '0' else split_part(${column}, chr(31), 1) end`
}

/**
 * Returns the number of a namespace, and registers the namespace if it is new. Returns no row if another transaction is
 * registering one, or was quicker. It never waits, because a transaction that registers holds the lock until it ends.
 * $1 name
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

/** If number 0 uses an old name, the name becomes its own. $1 number, $2 kind, $3 name */
export function claimNameSql(schema: string): string {
  return `
with d as (
  delete from ${schema}.unclaimed u where $1::int4 = 0 and u.kind = $2::text and u.name = $3::text
)
select $1::int4 = 0 or not exists (select 1 from ${schema}.unclaimed u where u.kind = $2::text and u.name = $3::text) as free`
}

/**
 * Prevents registrations until the transaction ends. It is a separate statement, so that the next one sees all earlier
 * registrations.
 */
export function namespacesLockSql(schema: string): string {
  return `select pg_advisory_xact_lock(${namespacesLock(schema)})::text as locked`
}

/** Gives number 0 a name, unless it has one. That name then owns all rows from before namespaces. $1 name */
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

/** Tells a migration which namespace owns the old rows. $1 name */
export const ADOPT_SETTING_SQL: string = `select set_config('effectively_once.adopt', $1::text, true) as adopt`

/**
 * The namespaces that wrote rows before they had numbers: our own events and sealed inputs name them. Events of plain
 * SQL do not count: their ids are not UUIDs of version 8, and their source may be any text.
 */
export function seenNamespacesSql(schema: string): string {
  return `select e.headers ->> 'source' as name from ${schema}.event e where substr(e.id::text, 15, 1) = '8' and e.headers ->> 'source' is not null
   union select c.namespace from ${schema}.recover c`
}

/** The namespaces that have events in a segment. Reads the table, because only the owner has rights to its segments. */
export function namespacesIn(schema: string, segment: number): string {
  return `select n.no from (select 0 as no union select n.no from ${schema}.namespace n) n
   where exists (select 1 from ${schema}.event e where e.segment = ${segment} and e.shard >= n.no * ${SHARDS} and e.shard < (n.no + 1) * ${SHARDS})`
}
