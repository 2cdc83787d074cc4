import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describePostgres } from '../../test/support/postgres.ts'
import { pgStore } from '../store/postgres/pg.ts'
import { besideEachOther } from './differential/beside.ts'
import { Player } from './differential/player.ts'
import { drawScript } from './differential/script.ts'
import { inMemory, onPostgres } from './differential/subjects.ts'
import { Dice } from './sim/dice.ts'

const SCRIPTS = 120
const LENGTH = 40

/** The model of the simulator must not drift from the real thing: the same scripts, the same answers. */
describePostgres('the in-memory model against PostgreSQL', (database) => {
  let pool: pg.Pool

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 8 })
    await pgStore(pool).schema.migrate()
    await pool.query('create table effects (key text not null)')
  })

  afterAll(() => pool.end())

  test(`${SCRIPTS} scripts of ${LENGTH} calls`, { timeout: 600_000 }, async () => {
    for (let seed = 1; seed <= SCRIPTS; seed++) {
      const prefix = `diff-${process.pid}-${seed}-`
      const subjects = [inMemory(), onPostgres(pool)] as const
      const players = [new Player(subjects[0], prefix), new Player(subjects[1], prefix)] as const
      const [model, real] = await besideEachOther(players, drawScript(new Dice(seed), LENGTH))
      for (const subject of subjects) await subject.close()
      expect(model, `seed ${seed}`).toEqual(real)
    }
  })
})
