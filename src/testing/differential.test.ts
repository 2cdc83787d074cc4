import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describePostgres } from '../../test/support/postgres.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { pgStore } from '../store/postgres/pg.ts'
import type { Store } from '../store/store.ts'
import type { StoreSubject } from './contract/subject.ts'
import { Player } from './differential/player.ts'
import { drawScript } from './differential/script.ts'
import type { Op } from './differential/script.ts'
import { Dice } from './sim/dice.ts'

const SCRIPTS = 120
const LENGTH = 40
/** A call that has not ended by then waits for another transaction. */
const WAITING_MS = 100
const SLOW_MS = 10_000

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
      const subjects = [inMemory(), onPostgres()] as const
      const players = [new Player(subjects[0], prefix), new Player(subjects[1], prefix)] as const
      const told: unknown[][] = [[], []]
      try {
        for (const op of drawScript(new Dice(seed), LENGTH)) await playBoth(players, op, told)
      } finally {
        for (const player of players) await player.letGo()
      }
      for (const [i, player] of players.entries()) told[i]!.push(['at the end', await player.state()])
      for (const subject of subjects) await subject.close()
      expect(told[0], `seed ${seed}`).toEqual(told[1])
    }
  })

  async function playBoth(players: readonly [Player, Player], op: Op, told: unknown[][]): Promise<void> {
    const results = [players[0].play(op), players[1].play(op)] as const
    const inMemory = await endsWithin(results[0], WAITING_MS)
    // The model is quick: if it has ended, the server may take its time. If it waits, the server must wait too.
    const onServer = await endsWithin(results[1], inMemory ? SLOW_MS : WAITING_MS)
    if (!inMemory || !onServer) for (const player of players) await player.letGo()
    told[0]!.push([op, inMemory ? 'at once' : 'waited', await results[0]])
    told[1]!.push([op, onServer ? 'at once' : 'waited', await results[1]])
  }

  function onPostgres(): StoreSubject<unknown> {
    const store = pgStore(pool) as Store<unknown>
    return {
      store,
      effect: async (tx, key) => void (await (tx as pg.PoolClient).query('insert into effects values ($1)', [key])),
      async effects(key) {
        const { rows } = await pool.query<{ n: number }>('select count(*)::int4 n from effects where key = $1', [key])
        return rows[0]!.n
      },
      statement: (key) => ({ sql: 'insert into effects values ($1)', values: [key] }),
      close: () => store.close(),
    }
  }
})

function inMemory(): StoreSubject<unknown> {
  const memory = memoryStore()
  const store: Store<unknown> = memory
  return {
    store,
    effect: async (tx, key) =>
      void (await (tx as { insert(table: string, row: object): Promise<unknown> }).insert('effects', { key })),
    effects: (key) => Promise.resolve(memory.rows('effects').filter((row) => row['key'] === key).length),
    statement: (key) => ({ sql: 'insert into effects', values: [{ key }] }),
    close: () => Promise.resolve(),
  }
}

async function endsWithin(result: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<false>((resolve) => (timer = setTimeout(resolve, ms, false)))
  const ended = await Promise.race([result.then(() => true as const), late])
  clearTimeout(timer)
  return ended
}
