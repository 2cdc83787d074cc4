import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import { NAMESPACES_MAX } from '../../limits.ts'
import { MIGRATIONS } from './migrations.ts'
import { pgStore } from './pg.ts'

it('every migration has the next version, and a name of its own', () => {
  expect(MIGRATIONS.map(({ version }) => version)).toEqual(MIGRATIONS.map((_, n) => n + 1))
  const names = MIGRATIONS.map(({ name }) => name)
  for (const name of names) expect(name).toMatch(/^[a-z].+/)
  expect(new Set(names).size).toBe(names.length)
})

describePostgres('a database that is full of namespaces', (database) => {
  let pool: pg.Pool
  beforeAll(() => {
    pool = new pg.Pool({ connectionString: database.url })
  })
  afterAll(() => pool.end())

  it('takes the last one, and refuses the next one', async () => {
    const { schema, namespaces } = pgStore(pool)
    await schema.migrate()
    await pool.query(
      `insert into effectively_once.namespace (no, name) select n, 'shop ' || n from generate_series(0, $1::int4) n`,
      [NAMESPACES_MAX - 2],
    )
    expect(await namespaces.register({ name: 'last' })).toBe(NAMESPACES_MAX - 1)
    await expect(namespaces.register({ name: 'next' })).rejects.toMatchObject({ code: 'ONCE_NAMESPACES_FULL' })
    expect(await namespaces.register({ name: 'shop 7' })).toBe(7)
    expect(await namespaces.register({ name: 'last' })).toBe(NAMESPACES_MAX - 1)
  })
})
