import { SWEEP_BLOCKS, SWEEP_PART_MS_MAX, SWEEP_PART_MS_MIN } from '../../../limits.ts'

/**
 * One sweeper at a time. It is a lease, because a lock would need its own connection during the whole sweep. Two
 * sweepers at once do no harm, so there is no fence. No row: another process sweeps. `owner`: the role may change the
 * tables.
 * $1 name, $2 lease ms, $3 replay ms
 */
export function holdSweepSql(schema: string): string {
  return `
insert into ${schema}.sweeper as s (name, until, replay_ms, holder)
values ($1::text, clock_timestamp() + $2::float8 * interval '1 millisecond', $3::float8, gen_random_uuid())
on conflict (name) do update
   set until = excluded.until, replay_ms = greatest(s.replay_ms, excluded.replay_ms), holder = excluded.holder
 where s.until <= clock_timestamp()
returning s.holder::text as holder, s.replay_ms, ${isOwnerSql(schema)} as owner`
}

/** $1 name, $2 holder */
export function letSweepGoSql(schema: string): string {
  return `update ${schema}.sweeper set until = clock_timestamp() where name = $1::text and holder = $2::text::uuid`
}

/** Whether this role may attach and drop partitions. */
export function isOwnerSql(schema: string): string {
  return `(select pg_has_role(c.relowner, 'USAGE') and has_schema_privilege(c.relnamespace, 'CREATE')
  from pg_class c where c.oid = '${schema}.answer'::regclass)`
}

/** The tables that are swept in parts. */
export type PartedTable = 'record' | 'inbox' | 'mark'

/**
 * The parts in which a row may be due. Parts that were never read come first, then those that have been due longest. A
 * table of one part is always read: that is cheaper than to be late.
 * $1 limit
 */
export function duePartsSql(schema: string, table: PartedTable): string {
  const partBytes = `${SWEEP_BLOCKS} * current_setting('block_size')::int8`
  return `
select g.no from (select ceil(pg_relation_size('${schema}.${table}')::float8 / (${partBytes}))::int4 as parts) t
  cross join lateral generate_series(0, t.parts - 1) g(no)
  left join ${schema}.sweep_part s on s.name = '${table}' and s.no = g.no
 where t.parts = 1 or s.due_at is null or s.due_at <= clock_timestamp()
 order by s.due_at nulls first limit $1::int4`
}

/**
 * The rows of one part, found by their physical address, so the hot path needs no index. `r` is the table. $1 first
 * tid, $2 tid past the end
 */
export const IN_PART = `r.ctid >= $1::text::tid and r.ctid < $2::text::tid`

/** When the first row of a part is due. $1 first tid, $2 tid past the end */
const FIRST_DUE: Readonly<Record<PartedTable, (schema: string) => string>> = {
  record: (schema) => `select min(r.forget_at) as at from ${schema}.record r where ${IN_PART} and r.state = 2`,
  inbox: (schema) => `select min(m.at + c.inbox_ms * interval '1 millisecond') as at
    from (select r.consumer, min(r.at) as at from ${schema}.inbox r where ${IN_PART} group by r.consumer) m
    join ${schema}.consumer c on c.name = m.consumer`,
  mark: (schema) => `select min(r.forget_at) as at from ${schema}.mark r where ${IN_PART}`,
}

/**
 * Looks into a part. If no row is due, notes when to look again: in time for the existing rows, and for new rows that
 * may fill its free space. An empty part is soon read again, which costs nothing.
 * $1 first tid, $2 tid past the end, $3 no
 */
export function lookIntoPartSql(schema: string, table: PartedTable): string {
  return `
with f as materialized (
  ${FIRST_DUE[table](schema)}
), n as materialized (
  select clock_timestamp() as at
), s as (
  ${noteSql(schema, table, '$3')} greatest(${soonest}, least(coalesce(f.at, n.at), ${latest}))
    from f, n where f.at > n.at or f.at is null
  on conflict (name, no) do update set due_at = excluded.due_at
)
select coalesce(f.at <= n.at, false) as due from f, n`
}

/** Notes that the due rows of a part are done. $1 no */
export function restPartSql(schema: string, table: PartedTable): string {
  return `
${noteSql(schema, table, '$1')} ${soonest} from (select clock_timestamp() as at) n
on conflict (name, no) do update set due_at = excluded.due_at`
}

const soonest = `n.at + ${SWEEP_PART_MS_MIN} * interval '1 millisecond'`
const latest = `n.at + ${SWEEP_PART_MS_MAX} * interval '1 millisecond'`

function noteSql(schema: string, table: PartedTable, no: string): string {
  return `insert into ${schema}.sweep_part (name, no, due_at) select '${table}', ${no}::int4,`
}
