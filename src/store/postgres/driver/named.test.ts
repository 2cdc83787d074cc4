import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { describePostgres } from '../../../../test/support/postgres.ts'
import { effectivelyOnce } from '../../../index.ts'
import { pgStore } from '../pg.ts'

describePostgres("statements under a handler's own name", (database) => {
  type Tx = Omit<pg.PoolClient, 'release' | 'connect' | 'end'>
  let pool: pg.Pool
  let once: ReturnType<typeof open>
  let keys = 0
  /** Names of the messages that the server sent, on every connection. */
  const heard: string[] = []
  let writes = 0

  function open(): ReturnType<typeof effectivelyOnce<Tx>> {
    return effectivelyOnce({ namespace: 'named', store: pgStore(pool), sweep: false })
  }

  const run = <T>(handler: (tx: Tx) => Promise<T>): Promise<unknown> =>
    once.run({ scope: 'u', key: `key-${++keys}`, input: keys }, ({ tx }) => handler(tx))

  beforeAll(async () => {
    // One connection: whatever is prepared, the next operation has it.
    pool = new pg.Pool({ connectionString: database.url, max: 1 })
    pool.on('error', () => {})
    pool.on('connect', (client) => {
      const { connection } = client as unknown as { connection: pg.Connection & { stream: NodeJS.WriteStream } }
      connection.on('rowDescription', () => heard.push('columns'))
      connection.on('parseComplete', () => heard.push('parsed'))
      const write = connection.stream.write.bind(connection.stream)
      connection.stream.write = (...args: unknown[]) => {
        writes++
        return Reflect.apply(write, undefined, args) as boolean
      }
    })
    once = open()
    await once.migrate()
    await pool.query('create table charge (amount int not null)')
  })
  beforeEach(() => {
    heard.length = 0
    writes = 0
  })
  afterAll(async () => {
    await once.close()
    await pool.end()
  })

  it('are one write each, and are parsed and described once per connection', async () => {
    const counts: unknown[] = []
    for (let i = 0; i < 3; i++) {
      await run(async (tx) => {
        heard.length = writes = 0
        const { rows } = await tx.query({ name: 'twice', text: 'select $1::int4 * 2 as n', values: [i] })
        counts.push({ n: (rows[0] as { n: number }).n, writes, heard: [...heard] })
      })
    }
    expect(counts).toEqual([
      { n: 0, writes: 1, heard: ['parsed', 'columns'] },
      { n: 2, writes: 1, heard: [] },
      { n: 4, writes: 1, heard: [] },
    ])
  })

  const STATEMENTS: readonly { readonly text: string; readonly values?: unknown[] }[] = [
    {
      text: 'select $1::timestamptz as at, $2::jsonb as json, $3::bytea as b',
      values: [new Date(0), { a: 1 }, Buffer.from([0, 255])],
    },
    {
      text: 'select $1::int8 as large, $2::text as no, $3::int4[] as many',
      values: ['9007199254740993', null, [1, 2]],
    },
    { text: 'select n from generate_series(1, 3) n' },
    { text: 'insert into charge (amount) select $1::int4 where false', values: [1] },
    { text: 'select 1 as same, $1::int4 as same', values: [2] },
    { text: 'select 1/$1::int4 as n', values: [0] },
    { text: 'select no_such_column from charge where amount = $1', values: [1] },
    { text: "select set_config('a.b', '1', true); select set_config('a.b', '2', true)", values: [] },
    { text: 'select $1::int4 as n', values: [] },
  ]

  it.each(STATEMENTS)('answer as pg does: $text', async (statement) => {
    const name = `as_pg_${keys}`
    const config = { name, ...statement }
    const told = async (queried: Promise<pg.QueryResult>): Promise<unknown> =>
      queried.then(
        ({ command, rowCount, oid, rows, fields }) => ({ command, rowCount, oid, rows, fields }),
        ({ message, code, position }: pg.DatabaseError) => ({
          message: message.replace(/as_pg_\w+/, 'it'),
          code,
          position,
        }),
      )
    const byPg = await told(pool.query({ ...config, name: `${name}_pg` }))
    for (let i = 0; i < 2; i++) {
      let ours: unknown
      await run(async (tx) => {
        ours = await told(tx.query(config))
      }).catch(() => {})
      expect(ours).toEqual(byPg)
    }
  })

  it('share their names with pg: whoever prepares first, the other one uses it', async () => {
    const [first, second] = ['select 11 as n', 'select 12 as n']
    await pool.query({ name: 'by_pg', text: first })
    await run((tx) => tx.query({ name: 'by_us', text: second }).then(({ rows }) => rows))
    await run(async (tx) => {
      heard.length = 0
      expect((await tx.query({ name: 'by_pg', text: first })).rows).toEqual([{ n: 11 }])
      expect(heard).toEqual(['columns'])
    })
    heard.length = 0
    expect((await pool.query({ name: 'by_us', text: second })).rows).toEqual([{ n: 12 }])
    expect(heard).toEqual(['columns'])
  })

  it('refuse a name with another text, as pg does', async () => {
    await run((tx) => tx.query({ name: 'unique', text: 'select 1' }).then(() => null))
    const other = run((tx) => tx.query({ name: 'unique', text: 'select 2' }))
    await expect(other).rejects.toThrow("Prepared statements must be unique - 'unique'")
  })

  it('that are sent at once under one name are both answered', async () => {
    const both = await run(async (tx) => {
      const ask = (n: number): Promise<pg.QueryResult> =>
        tx.query({ name: 'at_once', text: 'select $1::int4 as n', values: [n] })
      return (await Promise.all([ask(1), ask(2), ask(3)])).map(({ rows }) => (rows[0] as { n: number }).n)
    })
    expect(both).toEqual([1, 2, 3])
  })

  it('work again after a column changed its type: the operation runs again', async () => {
    const read = (): Promise<unknown> =>
      run(
        async (tx) => (await tx.query({ name: 'read', text: 'select amount from charge limit $1', values: [1] })).rows,
      )
    await pool.query('insert into charge (amount) values (7)')
    expect(await read()).toEqual([{ amount: 7 }])
    await pool.query('alter table charge alter column amount type text')
    expect(await read()).toEqual([{ amount: '7' }])
  })

  it('work again after somebody deallocated the name', async () => {
    const read = (): Promise<unknown> =>
      run(async (tx) => (await tx.query({ name: 'gone', text: 'select $1::int4 as n', values: [1] })).rows)
    expect(await read()).toEqual([{ n: 1 }])
    await pool.query('deallocate gone')
    await expect(read()).rejects.toMatchObject({ code: '26000' })
    expect(await read()).toEqual([{ n: 1 }])
  })

  it('go to pg with options that only pg knows', async () => {
    const rows = await run(
      async (tx) =>
        (await tx.query({ name: 'array', text: 'select $1::int4 as n', values: [1], rowMode: 'array' })).rows,
    )
    expect(rows).toEqual([[1]])
  })
})
