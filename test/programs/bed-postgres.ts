import pg from 'pg'
import { pgStore } from '../../src/entry/pg.ts'
import { instancesOn, NotCommitted, type Bed, type Deadline, type EffectRow, type Place, type Reading } from './bed.ts'
import type { Seen, SeenRecord } from './judge/seen.ts'

/** What handlers write, and every way in which it can fail. The seeded row is there for others to collide with. */
const TABLES = `
create table fuzz_parent (id int primary key);
insert into fuzz_parent values (1);
create table fuzz_effect (
  uid text primary key,
  program text not null,
  fault text check (fault is distinct from 'check'),
  parent int not null references fuzz_parent deferrable initially deferred,
  extra jsonb
);
create index on fuzz_effect (program);
insert into fuzz_effect values ('taken', '', null, 1);
create table fuzz_probe (id int primary key, times int not null);
insert into fuzz_probe values (1, 0);
create table fuzz_lock (program text, id int, times int not null, primary key (program, id));
create function fuzz_raise() returns trigger language plpgsql as $$ begin raise exception 'the shop says no'; end $$;
create trigger fuzz_raise before insert on fuzz_effect for each row when (new.fault = 'raise') execute function fuzz_raise();
create constraint trigger fuzz_late after insert on fuzz_effect deferrable initially deferred
  for each row when (new.fault = 'deferred') execute function fuzz_raise();
create index on effectively_once.event (aggregateid);
create index on effectively_once.inbox (message);
create index on effectively_once.dead_letter (message);`

const READ = `
select (select coalesce(json_agg(uid), '[]') from fuzz_effect where program = $1) as rows,
       (select coalesce(json_agg(payload->>'uid'), '[]') from effectively_once.event where aggregateid = $1) as events,
       (select coalesce(json_agg(json_build_object('id', r.id, 'state', r.state, 'status', a.status, 'body', convert_from(a.body, 'UTF8'))), '[]')
          from effectively_once.record r left join effectively_once.answer a on a.id = r.id and a.token = r.token
         where r.id = any($2::uuid[])) as records,
       (select coalesce(json_agg(message), '[]') from effectively_once.inbox where message = any($3::text[])) as applied,
       (select coalesce(json_agg(message), '[]') from effectively_once.dead_letter where message = any($3::text[])) as parked`

const INSERT = 'insert into fuzz_effect (uid, program, fault, parent, extra) values ($1, $2, $3, $4, $5) returning uid'
/** Whoever writes the same row waits for us, and we for whoever came first. */
const LOCK = `with locked as (
  insert into fuzz_lock values ($2, $6, 1) on conflict (program, id) do update set times = fuzz_lock.times + 1 returning times
)
insert into fuzz_effect (uid, program, fault, parent, extra)
select $1, $2, $3, $4::int, $5::jsonb from locked returning uid`
const POOL_MAX = 10

/** A killed client kills no server: nothing here needs a commit to reach the disk. */
function openPool(url: string, pipeline: boolean): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: POOL_MAX,
    // Nobody waits a second before a deadlock is looked for.
    options: '-c synchronous_commit=off -c deadlock_timeout=20ms',
    ...(pipeline && { pipeline }),
  })
  pool.on('error', () => {})
  return pool
}

interface Options {
  readonly prepared?: boolean
  readonly deadline?: Deadline | undefined
}

/** Every second lane has a pool that pipelines. */
export async function postgresBed(url: string, options: Options = {}): Promise<Bed> {
  const pools = [openPool(url, false), openPool(url, true)] as const
  const stores = pools.map((pool) => pgStore(pool))
  if (!options.prepared) {
    await stores[0]?.schema.migrate()
    await pools[0].query(TABLES)
  }
  const places = new Map<number, Place>()
  const beside = new pg.Pool({ connectionString: url, max: 1 })
  beside.on('error', () => {})
  return {
    store: 'pg',
    probe: () => beside.query('update fuzz_probe set times = times + 1'),
    async place(lane) {
      const known = places.get(lane)
      if (known) return known
      const pool = pools[lane % 2] as pg.Pool
      const place: Place = {
        title: lane % 2 === 0 ? 'pg' : 'pg, pipeline: true',
        ...instancesOn(stores[lane % 2] as never, lane, options.deadline),
        statement,
        write: (tx: pg.PoolClient, row) => {
          const { sql, values } = statement(row)
          return tx.query(sql, values)
        },
        run: (tx: pg.PoolClient, sql) => tx.query(sql),
        own: (work) => own(pool, work),
        read: (of) => read(pool, of),
        leave: () => {},
      }
      places.set(lane, place)
      return place
    },
    address: { store: 'pg', url },
    async close() {
      await Promise.all(stores.map((store) => store.close()))
      await Promise.all([...pools, beside].map((pool) => pool.end()))
    },
  }
}

function statement({ uid, program, fault, lock }: EffectRow): { sql: string; values: unknown[] } {
  const extra = fault === 'unserialisable' ? { id: 1n } : null
  const values = [fault === 'unique' ? 'taken' : uid, program, fault, fault === 'orphan' ? 2 : 1, extra]
  return lock === null ? { sql: INSERT, values } : { sql: LOCK, values: [...values, lock] }
}

async function own<R>(pool: pg.Pool, work: (tx: pg.PoolClient) => Promise<R>): Promise<R> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const result = await work(client)
    const { command } = await client.query('commit')
    if (command !== 'COMMIT') throw new NotCommitted('the server rolled back')
    return result
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  } finally {
    client.release()
  }
}

const STATES: Readonly<Record<number, SeenRecord['state']>> = { 1: 'running', 2: 'completed', 3: 'unknown' }

interface RecordRow {
  readonly id: string
  readonly state: number
  readonly status: number | null
  readonly body: string | null
}

async function read(pool: pg.Pool, { program, ids, messages }: Reading): Promise<Seen> {
  const { rows } = await pool.query({ name: 'fuzz_read', text: READ, values: [program, ids, messages] })
  const seen = rows[0] as Seen & { records: readonly RecordRow[] }
  return { ...seen, records: seen.records.map(recordOf) }
}

export function recordOf({ id, state, status, body }: RecordRow): SeenRecord {
  return { id, state: STATES[state] ?? 'unknown', answer: status === null ? null : { status, body } }
}
