import pg from 'pg'
import { expect, it } from 'vitest'
import { effectivelyOnce } from '../../index.ts'
import { describePostgres } from '../../../test/support/postgres.ts'
import { pgStore } from './pg.ts'

describePostgres('the parameters of node-postgres', (database) => {
  it('have the types of the columns, so that the server casts nothing, and bytes are not text', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 })
    const once = effectivelyOnce({ namespace: 'test', store: pgStore(pool), guard: 'off', sweep: false })
    await once.migrate()
    expect(await once.run({ scope: 'u', key: 'k', input: 1 }, async () => ({ made: 'ä' }))).toEqual({ made: 'ä' })
    const answers = await pool.query(`select convert_from(body, 'UTF8') as body from effectively_once.answer`)
    expect(answers.rows.map(({ body }) => body as string)).toEqual([expect.stringContaining('"made":"ä"')])
    const { rows } = await pool.query<{ name: string; types: string }>(
      `select split_part(name, '.', 2) as name, parameter_types::text as types from pg_prepared_statements where name ~ 'claim|complete'`,
    )
    expect(Object.fromEntries(rows.map(({ name, types }) => [name, types]))).toEqual({
      claim: '{bigint,bigint,uuid,uuid,uuid,integer,"double precision","double precision",text}',
      complete: '{uuid,date,bigint,integer,text,bytea,boolean,text}',
    })
    await once.close()
    await pool.end()
  })
})
