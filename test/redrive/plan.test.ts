import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { BY, CONSUMER, openRedriveWorld, temporaryFile, type Backend, type RedriveWorld } from './world.ts'

/** At full size: REDRIVE_LETTERS=200000. */
const LETTERS = Number(process.env['REDRIVE_LETTERS'] ?? 40_000)
/** What a plan of so many may take: 5 s at full size. */
const PLAN_MS = Math.max(2_000, LETTERS / 40)
/** The machine has other things to do: once in so many times will do. */
const TRIES = 3
const TIMEOUT_MS = 240_000
const uuid = (n: number): string => `00000000-0000-0000-0000-${n.toString(16).padStart(12, '0')}`

/** Letters as a consumer would have parked them: the first failed, the others are behind it. `aggregate` is SQL of `n`. */
function insertSql(backend: Backend, letters: number, aggregate: string): string {
  const [table, id, series, now] =
    backend === 'pg'
      ? [
          'effectively_once.dead_letter',
          `lpad(to_hex(n), 32, '0')::uuid`,
          `generate_series(1, ${letters}) n`,
          'clock_timestamp()',
        ]
      : [
          'effectively_once_dead_letter',
          `'00000000-0000-0000-0000-' || printf('%012x', n)`,
          `(with recursive s(n) as (select 1 union all select n + 1 from s where n < ${letters}) select n from s)`,
          `cast(unixepoch('subsec') * 1000 as integer)`,
        ]
  return `insert into ${table} (id, consumer, source, message, type, aggregate, state, reason, error, fingerprint, attempts,
      timeline, causes, headers, body, parked_at)
    select ${id}, '${CONSUMER}', 'memory', 'm' || n, 'step.made', ${aggregate}, 1, case when n = 1 then 'failed' else 'behind' end, 'no', 'f', 1,
      '[]', '[]', '{}', '{}', ${now} from ${series}`
}

function cases(backend: Backend, opened: () => Promise<{ world: RedriveWorld; undo: () => Promise<void> }>): void {
  describe.each([
    ['one aggregate', `'a'`],
    ['pairs', `'a' || (n / 2)`],
    ['none', 'null'],
  ])('of %s', (title, aggregate) => {
    let world: RedriveWorld
    let undo: () => Promise<void>
    beforeAll(async () => {
      ;({ world, undo } = await opened())
      await world.consumer().drain()
      await world.sql(insertSql(backend, LETTERS, aggregate))
    }, TIMEOUT_MS)
    afterAll(() => undo(), TIMEOUT_MS)

    const timed = async <T>(what: string, most: number, work: () => Promise<T>): Promise<T> => {
      for (let tries = 1; ; tries++) {
        const at = performance.now()
        const made = await work()
        const ms = performance.now() - at
        console.log(`${backend}, ${title}, ${what}: ${Math.round(ms)} ms`)
        if (tries < TRIES && ms >= most) continue
        expect(ms).toBeLessThan(most)
        return made
      }
    }
    const planned = async (filter: object): Promise<readonly [number, number, number]> => {
      const what = JSON.stringify(filter).slice(0, 20)
      const plan = await timed(what, PLAN_MS, () => world.once.redrive.plan(filter))
      return [plan.matching, plan.behind, plan.reordered]
    }

    it(
      'all, the first, the last and one from the middle are planned in time',
      async () => {
        const together = title === 'one aggregate'
        const reordered = together ? 1 : 0
        expect(await planned({})).toEqual([LETTERS, 0, 0])
        expect(await planned({ reason: 'failed' })).toEqual([1, together ? LETTERS - 1 : 0, 0])
        expect(await planned({ reason: 'behind' })).toEqual([LETTERS - 1, 0, reordered])
        expect(await planned({ ids: [uuid(LETTERS)] })).toEqual([1, 0, reordered])
        const after = together ? LETTERS - 1_000 : title === 'pairs' ? 1 : 0
        expect(await planned({ ids: [uuid(1_000)] })).toEqual([1, after, reordered])
      },
      TIMEOUT_MS,
    )

    it(
      'they are listed, exported and frozen in time',
      async () => {
        // As servers do by themselves after a while.
        if (backend === 'pg') await world.sql('analyze')
        const first = await timed('list', PLAN_MS, () => world.once.deadLetters.list({}, { limit: 100 }))
        const behind = title === 'one aggregate' ? LETTERS : 0
        expect(first.map(({ blocks }) => blocks).slice(0, 3)).toEqual(
          title === 'pairs' ? [0, 1, 0] : [behind && behind - 1, behind && behind - 2, behind && behind - 3],
        )
        const lines = await timed('export', PLAN_MS * 12, async () => {
          let count = 0
          for await (const _ of world.once.deadLetters.export()) count++
          return count
        })
        expect(lines).toBe(LETTERS)
        const at = performance.now()
        const { id } = await world.once.redrive.run({}, BY)
        console.log(`${backend}, ${title}, run: ${Math.round(performance.now() - at)} ms`)
        expect(performance.now() - at).toBeLessThan(PLAN_MS * 16)
        await world.once.redrive.abort(id, BY)
      },
      TIMEOUT_MS,
    )
  })
}

describePostgres(`a redrive of ${LETTERS} letters, on PostgreSQL`, () => {
  cases('pg', async () => {
    const database = await freshDatabase()
    const world = await openRedriveWorld('pg', database.url)
    return {
      world,
      undo: async () => {
        await world.close()
        await database.drop()
      },
    }
  })
})

describe(`a redrive of ${LETTERS} letters, on SQLite`, () => {
  cases('sqlite', async () => {
    const { file, remove } = await temporaryFile()
    const world = await openRedriveWorld('sqlite', file)
    return {
      world,
      undo: async () => {
        await world.close()
        await remove()
      },
    }
  })
})
