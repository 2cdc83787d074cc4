import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describePostgres } from '../../test/support/postgres.ts'
import { describeSqlite } from '../../test/support/sqlite.ts'
import { pgStore } from '../store/postgres/pg.ts'
import type { StoreSubject } from './contract/subject.ts'
import { besideEachOther } from './differential/beside.ts'
import { InboxPlayer } from './differential/inbox-player.ts'
import { drawInboxScript } from './differential/inbox-script.ts'
import { inMemory, onPostgres, onSqlite } from './differential/subjects.ts'
import { Dice } from './sim/dice.ts'

const SCRIPTS = 80
const LENGTH = 50
const TIMEOUT_MS = 600_000

/** Messages, dead letters and redrives: the same scripts, the same answers. */
async function compare(seed: number, real: StoreSubject<unknown>, held: boolean): Promise<[unknown, unknown]> {
  const consumer = `diff-${process.pid}-${seed}`
  const model = inMemory()
  const players = [new InboxPlayer(model, consumer), new InboxPlayer(real, consumer)] as const
  for (const player of players) await player.open()
  const [expected, told] = await besideEachOther(players, drawInboxScript(new Dice(seed), LENGTH, held), held)
  return [told, expected]
}

describePostgres('the inbox in memory against PostgreSQL', (database) => {
  let pool: pg.Pool

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 8 })
    await pgStore(pool).schema.migrate()
    await pool.query('create table effects (key text not null)')
  })

  afterAll(() => pool.end())

  test(`${SCRIPTS} scripts of ${LENGTH} calls`, { timeout: TIMEOUT_MS }, async () => {
    const real = onPostgres(pool)
    for (let seed = 1; seed <= SCRIPTS; seed++) {
      const [told, expected] = await compare(seed, real, true)
      expect(told, `seed ${seed}`).toEqual(expected)
    }
    await real.close()
  })
})

describeSqlite('the inbox in memory against SQLite', (lab) => {
  test(`${SCRIPTS} scripts of ${LENGTH} calls`, { timeout: TIMEOUT_MS }, async () => {
    const real = onSqlite(await lab.store())
    for (let seed = 1; seed <= SCRIPTS; seed++) {
      const [told, expected] = await compare(seed, real, false)
      expect(told, `seed ${seed}`).toEqual(expected)
    }
  })
})
