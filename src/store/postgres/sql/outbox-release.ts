import { SHARDS } from '../../../limits.ts'
import { REWOUND, REWOUND_WHY } from '../../rewound.ts'

/**
 * Releases shards under a new token, so that a late heartbeat cannot renew a lease that nobody holds. Also takes back
 * the intent of a batch that was not tried. Locks the shards' rows.
 * $1 destination, $2 shards, $3 tokens, $4 relay (null: it stays)
 * For the audit, if the database went back to an earlier state: $5 the cursors that the relay knew, $6 by (null: the
 * database did not go back), $7 destination, as the program calls it. A lost lease counts, too: a lower token than ours
 * proves it, because tokens never fall.
 */
export function releaseShardsSql(schema: string): string {
  return `
with v as (
  select * from unnest($2::text::int4[], $3::text::int8[], $5::text::int8[]) v(shard, token, known)
), u as (
  update ${schema}.shard s set lease_until = '-infinity', token = s.token + 1
    from v
   where s.destination = $1::text and s.shard = v.shard and s.token = v.token
  returning s.shard, v.token, v.known
), n as (
  select u.shard, u.token, u.known, (select max(cursor) from ${schema}.ack where destination = $1::text and shard = u.shard) as cursor from u
), i as (
  update ${schema}.ack a set trying_to = null, attempt = 0
    from n
   where a.destination = $1::text and a.shard = n.shard and a.cursor = n.cursor and a.token = n.token and a.trying_to is not null
), g as (
  delete from ${schema}.relay r where r.destination = $1::text and r.id = $4::text::uuid
), r as (
  select shard, known, coalesce(cursor, 0) as cursor from n
  union all
  select * from (
    select s.shard, v.known, coalesce((select max(cursor) from ${schema}.ack where destination = $1::text and shard = s.shard), 0) as cursor
      from ${schema}.shard s join v using (shard)
     where $6::text is not null and s.destination = $1::text and s.token > 0 and s.token < v.token) f
   where f.cursor < f.known
), w as (
  insert into ${schema}.audit (actor, action, why, detail, namespace)
  select $6::text, '${REWOUND}', '${REWOUND_WHY}', jsonb_build_object('destination', $7::text, 'partitions', jsonb_agg(
           jsonb_build_object('partition', shard::text, 'from', known::text, 'to', cursor::text) order by shard)),
         min(shard) / ${SHARDS}
    from r where $6::text is not null having count(*) > 0
)
select count(*)::int4 as released from r`
}
