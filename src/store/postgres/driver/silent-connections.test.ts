import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { describePostgres } from '../../../../test/support/postgres.ts'
import { Link } from '../../../../test/weather/link.ts'
import { pgDriver } from '../pg.ts'

const STATEMENT = { name: '', text: 'select 1 as n', values: [] }
const IDLE = 4

describePostgres('connections that a firewall dropped', (database) => {
  const ends: (() => unknown)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  it('are all given up when one of them is found silent', async () => {
    const link = await Link.open(Number(new URL(database.url).port))
    ends.push(() => link.close())
    const pool = new pg.Pool({ connectionString: link.through(database.url), max: IDLE })
    pool.on('error', () => {})
    ends.push(() => pool.end())
    const driver = pgDriver(pool)
    ends.push(() => driver.close())
    await Promise.all(Array.from({ length: IDLE }, () => driver.query(STATEMENT)))
    const separate = driver.separateConnection!()
    await Promise.all([driver.aside(STATEMENT), separate.query(STATEMENT)])
    expect(pool.idleCount).toBe(IDLE)

    link.silence()
    link.forget()
    await expect(driver.aside(STATEMENT, 500)).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
    const answers = Promise.all([driver.aside(STATEMENT), separate.query(STATEMENT), driver.query(STATEMENT)])
    expect(await answers).toEqual([[{ n: 1 }], [{ n: 1 }], [{ n: 1 }]])
  }, 10_000)

  it('do not keep a statement of ours waiting inside a transaction', async () => {
    const link = await Link.open(Number(new URL(database.url).port))
    ends.push(() => link.close())
    const pool = new pg.Pool({ connectionString: link.through(database.url), max: 1 })
    pool.on('error', () => {})
    ends.push(() => pool.end())
    const driver = pgDriver(pool)
    ends.push(() => driver.close())
    const { connection } = await driver.begin(STATEMENT, { withinMs: 500 })
    link.silence()
    expect(await connection.pipeline([STATEMENT], 'ours')).toMatchObject({ kind: 'failed', lost: true })
    link.forget()
    await connection.rollback()
    expect(await driver.query(STATEMENT)).toEqual([{ n: 1 }])
  }, 10_000)

  it('are kept when they have answered since', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 })
    ends.push(() => pool.end())
    const driver = pgDriver(pool)
    ends.push(() => driver.close())
    const pid = { name: '', text: 'select pg_backend_pid() as pid', values: [] }
    const [first] = await driver.query(pid)
    const slow = driver.aside({ name: '', text: 'select pg_sleep(2)', values: [] }, 500)
    await driver.query(STATEMENT)
    await expect(slow).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
    expect(await driver.query(pid)).toEqual([first])
  }, 10_000)
})
