/**
 * A row says which segment is the current one, not a sequence. PostgreSQL logs sequences ahead of their use, so after a
 * crash or a promotion a sequence may be past every existing segment.
 *
 * A producer reads the row while it holds its shard's lock. Under READ COMMITTED, each statement of a volatile function
 * has its own snapshot. So the producer sees a turnover that happened while it waited, and within a shard the segment
 * never falls. A stricter level may have an older snapshot. There the row is locked, which raises 40001 if the row has
 * changed since.
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
