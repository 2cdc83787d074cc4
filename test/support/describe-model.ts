import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describePostgres } from './postgres.ts'
import { describeSqlite } from './sqlite.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import type { SqlSubject } from '../../src/testing/contract/subject.ts'
import { DEFERRED, onPostgres, onSqlite } from '../../src/testing/differential/subjects.ts'

const TIMEOUT_MS = 600_000
const EFFECTS_SQL = `
create table effects (key text not null);
create function refuse_effect() returns trigger language plpgsql as $$ begin raise exception 'not at the end either'; end $$;
create constraint trigger refused after insert on effects deferrable initially deferred
  for each row when (new.key = '${DEFERRED}') execute function refuse_effect();`

/** One kind of script, played by the model and by a real store. */
export interface Comparison {
  readonly scripts: number
  /** Calls in each. */
  readonly length: number
  /** What the real one told, and the model. `beside`: the real one lets others write while a transaction is open. */
  compare(seed: number, real: SqlSubject, beside: boolean): Promise<readonly [told: unknown, expected: unknown]>
}

/** The model of the simulator must not drift from the real thing: the same scripts, the same answers. */
export function describeModelOnPostgres(name: string, comparison: Comparison): void {
  describePostgres(`${name} in memory against PostgreSQL`, (database) => {
    let pool: pg.Pool

    beforeAll(async () => {
      pool = new pg.Pool({ connectionString: database.url, max: 8 })
      await pgStore(pool).schema.migrate()
      await pool.query(EFFECTS_SQL)
    })

    afterAll(() => pool.end())

    play(comparison, true, () => onPostgres(pool))
  })
}

export function describeModelOnSqlite(name: string, comparison: Comparison): void {
  describeSqlite(`${name} in memory against SQLite`, (lab) => {
    play(comparison, false, async () => onSqlite(await lab.store()))
  })
}

function play(
  { scripts, length, compare }: Comparison,
  beside: boolean,
  open: () => SqlSubject | Promise<SqlSubject>,
): void {
  test(`${scripts} scripts of ${length} calls`, { timeout: TIMEOUT_MS }, async () => {
    const real = await open()
    for (let seed = 1; seed <= scripts; seed++) {
      const [told, expected] = await compare(seed, real, beside)
      expect(told, `seed ${seed}`).toEqual(expected)
    }
    await real.close()
  })
}
