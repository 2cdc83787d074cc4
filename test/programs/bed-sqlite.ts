import { mkdtempSync, rmSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sqliteStore, type SqliteStore, type SqlTx } from '../../src/entry/sqlite.ts'
import { recordOf } from './bed-postgres.ts'
import { instancesOn, type Bed, type Deadline, type EffectRow, type Place, type Reading } from './bed.ts'
import type { Seen } from './judge/seen.ts'

const TABLES = [
  'create table fuzz_parent (id integer primary key)',
  'insert into fuzz_parent values (1)',
  `create table fuzz_effect (
  uid text primary key,
  program text not null,
  fault text check (fault is not 'check'),
  parent integer not null references fuzz_parent (id) deferrable initially deferred,
  extra text
)`,
  'create index fuzz_effect_program on fuzz_effect (program)',
  `insert into fuzz_effect values ('taken', '', null, 1, null)`,
  `create trigger fuzz_raise before insert on fuzz_effect when new.fault = 'raise' begin select raise(abort, 'the shop says no'); end`,
  'create index fuzz_event on effectively_once_event (aggregateid)',
  'create index fuzz_inbox on effectively_once_inbox (message)',
  'create index fuzz_letter on effectively_once_dead_letter (message)',
]

const INSERT = 'insert into fuzz_effect (uid, program, fault, parent, extra) values ($1, $2, $3, $4, $5) returning uid'

interface Options {
  /** One that is there already. */
  readonly file?: string
  readonly store?: 'sqlite' | 'sqlite-shared'
  readonly deadline?: Deadline | undefined
}

/** In memory where the system has a folder for it: a killed process loses nothing of it, and nobody waits for a disk. */
export async function sqliteBed({ file, store: name = 'sqlite', deadline }: Options = {}): Promise<Bed> {
  const directory =
    file === undefined ? mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'fuzz-')) : null
  const url = file ?? join(directory as string, 'shop.db')
  const store = sqliteStore({ file: url })
  if (directory !== null) {
    await store.schema.migrate()
    await store.transaction(async (tx) => {
      for (const sql of TABLES)
        await tx.query(name === 'sqlite-shared' ? sql.replace('deferrable initially deferred', '') : sql)
    })
  }
  const places = new Map<number, Place>()
  return {
    store: name,
    async place(lane) {
      const known = places.get(lane)
      if (known) return known
      const place: Place = {
        title: 'sqlite',
        ...instancesOn(store, lane, deadline),
        statement,
        write: (tx: SqlTx, row) => {
          const { sql, values } = statement(row)
          return tx.query(sql, values)
        },
        run: (tx: SqlTx, sql) => tx.query(sql, []),
        own: (work) => store.transaction(work),
        read: (of) => read(store, of),
        leave: () => {},
      }
      places.set(lane, place)
      return place
    },
    address: { store: 'sqlite', url },
    probe: async () => {},
    async close() {
      await store.close()
      if (directory !== null) rmSync(directory, { recursive: true, force: true })
    },
  }
}

function statement({ uid, program, fault }: EffectRow): { sql: string; values: unknown[] } {
  const extra = fault === 'unserialisable' ? { id: 1n } : null
  return {
    sql: INSERT,
    values: [fault === 'unique' ? 'taken' : uid, program, fault, fault === 'orphan' ? 2 : 1, extra],
  }
}

function read(store: SqliteStore, { program, ids, messages }: Reading): Promise<Seen> {
  const marks = (list: readonly unknown[]): string => list.map(() => '?').join(', ')
  return store.transaction(async (tx) => {
    const texts = async (sql: string, values: readonly unknown[]): Promise<string[]> =>
      (await tx.query<{ v: string }>(sql, values)).rows.map(({ v }) => v)
    const inMessages = `where message in (${marks(messages)})`
    const records = await tx.query<Parameters<typeof recordOf>[0]>(
      `select r.id, r.state, a.status, cast(a.body as text) as body
         from effectively_once_record r left join effectively_once_answer a on a.id = r.id where r.id in (${marks(ids)})`,
      ids,
    )
    return {
      rows: await texts('select uid as v from fuzz_effect where program = ?', [program]),
      events: await texts(
        `select json_extract(payload, '$.uid') as v from effectively_once_event where aggregateid = ?`,
        [program],
      ),
      records: records.rows.map(recordOf),
      applied: await texts(`select message as v from effectively_once_inbox ${inMessages}`, messages),
      parked: await texts(`select message as v from effectively_once_dead_letter ${inMessages}`, messages),
    }
  })
}
