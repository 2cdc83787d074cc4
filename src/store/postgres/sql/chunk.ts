import { ownedSql } from './step.ts'

/** The chunks of recorded streams. A position is written once. */
export function chunkTableSql(schema: string): readonly string[] {
  return [
    `create table ${schema}.chunk (
  id uuid not null,
  life bigint not null,
  start bigint not null,
  body bytea not null,
  primary key (id, life, start)
)`,
    // The bytes of a stream are seldom worth the time that their compression takes.
    `alter table ${schema}.chunk alter column body set storage external`,
  ]
}

/**
 * Appends a chunk, and locks the record's row by token in the same statement. No row: the attempt is fenced. A chunk
 * that is already there was written by this attempt, whose reply was lost. $1 id, $2 token, $3 life, $4 start, $5 body
 */
export function appendChunkSql(schema: string): string {
  return `
with r as materialized (${ownedSql(schema)}), c as (
  insert into ${schema}.chunk (id, life, start, body)
  select $1::text::uuid, $3::text::bigint, $4::float8::bigint, decode($5::text, 'base64') from r
  on conflict (id, life, start) do nothing
)
select true as done from r`
}

/**
 * Reads chunks in order, from the one that holds a position. The sizes are summed first, so that only the bodies of this
 * answer are read. $1 id, $2 life, $3 from, $4 bytes, $5 rows
 */
export function readChunksSql(schema: string): string {
  const own = 'c.id = $1::text::uuid and c.life = $2::text::bigint'
  return `
with w as materialized (
  select n.start, sum(n.size) over (order by n.start) - n.size as before
    from (select c.start, octet_length(c.body) as size from ${schema}.chunk c
           where ${own} and c.start >= coalesce((select max(c.start) from ${schema}.chunk c
                   where ${own} and c.start <= $3::float8::bigint), $3::float8::bigint)
           order by c.start limit $5::int4) n
)
select c.start::float8 as start, encode(c.body, 'base64') as body
  from w join ${schema}.chunk c on ${own} and c.start = w.start
 where w.before < $4::float8 order by c.start`
}
