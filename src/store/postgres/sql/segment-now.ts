/**
 * Which segment is written now is a row, not a sequence: PostgreSQL logs sequences ahead, so after a crash or a promotion
 * one stands past every segment there is.
 *
 * A producer asks while it holds its shard's lock. Under READ COMMITTED each statement of a volatile function has a
 * snapshot of its own, so the producer sees who turned over while it waited, and within a shard the segment never falls.
 * A stricter level may hold an older snapshot: there the row is locked, which raises 40001 if it has changed since.
 */
export function segmentNowSql(schema: string): readonly string[] {
  return [
    `create function ${schema}.segment_now(_name text) returns int4 language plpgsql as $$
declare
  _no int4;
begin
  if current_setting('transaction_isolation') = 'read committed' then
    return (select s.no from ${schema}.segment s where s.name = _name and s.state = 2);
  end if;
  select s.no into _no from ${schema}.segment s where s.name = _name and s.state = 2 for share;
  return _no;
end $$`,
    ...['event', 'ack'].map(
      (table) => `alter table ${schema}.${table} alter column segment set default ${schema}.segment_now('${table}')`,
    ),
  ]
}
