import pg from 'pg'

const STEP = 1_000_000

/** Records as a service would have left them over the last week; the index is built behind them, as by a restore. */
export async function fill(url: string, records: number, progress: (text: string) => void): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(`set synchronous_commit = off; set maintenance_work_mem = '512MB'`)
  await client.query('alter table effectively_once.record drop constraint record_pkey')
  for (let from = 1; from <= records; from += STEP) {
    const to = Math.min(from + STEP - 1, records)
    await client.query(FILL, [from, to])
    progress(`${to} of ${records} records`)
  }
  await client.query('alter table effectively_once.record add primary key (id)')
  progress('primary key built')
  await client.query('vacuum (freeze, analyze) effectively_once.record')
  await client.query('checkpoint')
  await client.end()
}

const FILL = `
insert into effectively_once.record (id, scope, fp, fp_version, state, attempt, token, life, expires_at, forget_at)
select md5('id' || n)::uuid, md5('scope' || n % 1000)::uuid, md5('fp' || n)::uuid, 1, 2, 1, t.us, t.us,
       t.at + interval '24 hours', t.at + interval '8 days'
  from generate_series($1::int8, $2::int8) n,
       lateral (select now() - n % 604800 * interval '1 second' as at,
                       (extract(epoch from now()) * 1000000)::int8 - n % 604800 * 1000000 as us) t`
