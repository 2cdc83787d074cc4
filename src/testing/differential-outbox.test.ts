import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describePostgres } from '../../test/support/postgres.ts'
import { describeSqlite } from '../../test/support/sqlite.ts'
import { pgStore } from '../store/postgres/pg.ts'
import type { StoreSubject } from './contract/subject.ts'
import { besideEachOther } from './differential/beside.ts'
import { OutboxPlayer } from './differential/outbox-player.ts'
import { drawOutboxScript } from './differential/outbox-script.ts'
import { inMemory, onPostgres, onSqlite } from './differential/subjects.ts'
import { Dice } from './sim/dice.ts'

const SCRIPTS = 40
const LENGTH = 60
const TIMEOUT_MS = 600_000

/** Events, shards and what is held: the same scripts, the same answers. */
async function compare(seed: number, real: StoreSubject<unknown>): Promise<[unknown, unknown]> {
  const prefix = `diff-${process.pid}-${seed}`
  const players = [new OutboxPlayer(inMemory(), prefix), new OutboxPlayer(real, prefix)] as const
  for (const player of players) await player.open()
  const [expected, told] = await besideEachOther(players, drawOutboxScript(new Dice(seed), LENGTH), false)
  return [told, expected]
}

describePostgres('the outbox in memory against PostgreSQL', (database) => {
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
      const [told, expected] = await compare(seed, real)
      expect(told, `seed ${seed}`).toEqual(expected)
    }
    await real.close()
  })
})

describeSqlite('the outbox in memory against SQLite', (lab) => {
  test(`${SCRIPTS} scripts of ${LENGTH} calls`, { timeout: TIMEOUT_MS }, async () => {
    const real = onSqlite(await lab.store())
    for (let seed = 1; seed <= SCRIPTS; seed++) {
      const [told, expected] = await compare(seed, real)
      expect(told, `seed ${seed}`).toEqual(expected)
    }
  })
})
