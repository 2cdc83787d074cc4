import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describePostgres } from '../../../../test/support/postgres.ts'
import { effectivelyOnce } from '../../../index.ts'
import { pgStore } from '../pg.ts'
import { FrequentStatements } from './user-statements.ts'

it('names what came five times, nothing whose columns follow the table, and not more than a server should keep', () => {
  const frequent = new FrequentStatements()
  const names = Array.from({ length: 6 }, () => frequent.nameOf('select 1'))
  expect(names.map((name) => name !== '')).toEqual([false, false, false, false, true, true])
  expect(names[4]).toBe(names[5])
  const often = (text: string): string => Array.from({ length: 6 }, () => frequent.nameOf(text)).at(-1) ?? ''
  expect(often('select * from t')).toBe('')
  expect(Array.from({ length: 100 }, (_, i) => often(`select ${i + 2}`)).filter((name) => name !== '')).toHaveLength(63)
})

describePostgres('statements that handlers repeat', (database) => {
  const CHARGE = 'insert into charge (amount) values ($1) returning amount'
  let pool: pg.Pool
  let once: ReturnType<typeof open>
  let keys = 0

  function open(): ReturnType<typeof effectivelyOnce<Omit<pg.PoolClient, 'release' | 'connect' | 'end'>>> {
    return effectivelyOnce({ namespace: 'frequent', store: pgStore(pool), sweep: false })
  }

  beforeAll(async () => {
    // One connection: whatever is prepared, the next operation has it.
    pool = new pg.Pool({ connectionString: database.url, max: 1 })
    pool.on('error', () => {})
    once = open()
    await once.migrate()
    await pool.query('create table charge (amount int not null)')
  })
  afterAll(async () => {
    await once.close()
    await pool.end()
  })

  /** Runs the statement in an operation of its own; answers how often the handler ran and what is prepared for it. */
  async function charge(): Promise<{ runs: number; prepared: number; amount: unknown }> {
    let runs = 0
    const value = await once.run({ scope: 'u', key: `key-${++keys}`, input: keys }, async ({ tx }) => {
      runs++
      const { rows } = await tx.query<{ amount: unknown }>(CHARGE, ['5'])
      const kept = `select count(*)::int4 as n from pg_prepared_statements where statement = '${CHARGE.replaceAll("'", "''")}'`
      const { rows: named } = await tx.query<{ n: number }>(kept)
      return { prepared: named[0]?.n ?? 0, amount: rows[0]?.amount }
    })
    return { runs, ...value }
  }

  it('are prepared once they came five times, and answer as before', async () => {
    const told = []
    for (let i = 0; i < 7; i++) told.push(await charge())
    expect(told.map(({ prepared }) => prepared)).toEqual([0, 0, 0, 0, 1, 1, 1])
    expect(told.every(({ runs, amount }) => runs === 1 && amount === 5)).toBe(true)
  })

  const STATEMENTS: readonly (readonly [text: string, values: readonly unknown[]])[] = [
    [
      'select $1::timestamptz as at, $2::jsonb as json, $3::bytea as bytes, $4::int8 as large, $5::text as no, $6::int4[] as many',
      [new Date(0), { a: 1 }, Buffer.from([0, 255]), '9007199254740993', null, [1, 2]],
    ],
    ['select n from generate_series(1, $1::int4) n', [3]],
    ['insert into charge (amount) select $1::int4 where false', [1]],
    ['update charge set amount = amount where amount < $1', [0]],
    ['select set_config($1, $2, true)', ['search_path', 'public']],
    ['select 1 as same, $1::int4 as same', [2]],
    ["select set_config('a.b', '1', true); select set_config('a.b', '2', true)", []],
    ['create temp table if not exists unlike (n int)', []],
    ['select 1/$1::int4 as n', [0]],
    ['select $1::int4 as n', ['no number']],
    ['select no_such_column from charge where amount = $1', [1]],
  ]

  it.each(STATEMENTS)('answer as pg does: %s', async (text, values) => {
    const told: unknown[] = []
    for (let i = 0; i < 6; i++) {
      const answered = once.run({ scope: 'u', key: `key-${++keys}`, input: keys }, async ({ tx }) => {
        const results = [await tx.query(text, [...values])].flat()
        told.push(results.map(({ command, rowCount, oid, rows, fields }) => ({ command, rowCount, oid, rows, fields })))
      })
      await answered.catch(({ name, message, code, position }: pg.DatabaseError) =>
        told.push({ name, message, code, position }),
      )
    }
    expect(told).toHaveLength(6)
    expect(told[5]).toEqual(told[0])
  })

  it('survive a table that changes under them: the operation runs again, unprepared', async () => {
    await pool.query('alter table charge alter column amount type text')
    expect(await charge()).toEqual({ runs: 2, prepared: 1, amount: '5' })
    expect(await charge()).toMatchObject({ runs: 1, amount: '5' })
    const { rows } = await pool.query<{ n: number }>('select count(*)::int4 as n from charge')
    expect(rows[0]?.n).toBe(9)
  })

  it('survive a pooler that forgets names: the operation runs again, and no name is used any more', async () => {
    let runs = 0
    const run = (): Promise<unknown> =>
      once.run({ scope: 'u', key: `key-${++keys}`, input: keys }, async ({ tx }) => {
        runs++
        return (await tx.query('select $1::int4 as n', [1])).rows[0]
      })
    for (let i = 0; i < 6; i++) await run()
    const { rows } = await pool.query<{ name: string }>(
      `select name from pg_prepared_statements where statement = 'select $1::int4 as n'`,
    )
    await pool.query(`deallocate "${rows[0]?.name}"`)
    expect(await run()).toEqual({ n: 1 })
    expect(await run()).toEqual({ n: 1 })
    expect(runs).toBe(6 + 2 + 1)
  })
})
