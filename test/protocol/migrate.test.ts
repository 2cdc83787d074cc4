import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { MIGRATIONS, SCHEMA_VERSION } from '../../src/store/postgres/migrations.ts'
import { describePostgres } from '../support/postgres.ts'

describe('migrations', () => {
  it('are numbered without gaps', () => {
    expect(MIGRATIONS.map(({ version }) => version)).toEqual(MIGRATIONS.map((_, i) => i + 1))
  })
})

describePostgres('migrate', (database) => {
  it('works when ten processes start at once: one applies, all see the same version', { timeout: 60_000 }, async () => {
    const file = fileURLToPath(new URL('./migrate-process.ts', import.meta.url))
    const outputs = await Promise.all(
      Array.from({ length: 10 }, () => outputOf(process.execPath, ['--import', 'tsx', file, database.url])),
    )
    const results = outputs.map((output) => JSON.parse(output) as { from: number; to: number })
    expect(results.filter(({ from }) => from === 0)).toHaveLength(1)
    expect(new Set(results.map(({ to }) => to))).toEqual(new Set([SCHEMA_VERSION]))
  })

  it('refuses a schema that is newer than the code', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    const store = pgStore(pool)
    await store.schema.migrate()
    await pool.query('insert into effectively_once.version (version) values (99)')
    await expect(store.schema.migrate()).rejects.toMatchObject({ code: 'ONCE_SCHEMA_NEWER' })
    expect(await store.schema.version()).toBe(99)
    await pool.query('delete from effectively_once.version where version = 99')
    await pool.end()
  })

  it('applies nothing twice, also where it is asked to adopt', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    const { schema } = pgStore(pool)
    await schema.migrate()
    expect(await schema.migrate({ adopt: 'shop' })).toEqual({ from: SCHEMA_VERSION, to: SCHEMA_VERSION })
    await pool.end()
  })

  it('can be printed and applied by hand, to a schema of another name, with the same result', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    const [ours, byHand] = [pgStore(pool), pgStore(pool, { schema: 'by_hand' })]
    await ours.schema.migrate()
    expect(await byHand.schema.version()).toBe(0)
    await pool.query(byHand.schema.sql())
    expect(await byHand.schema.version()).toBe(SCHEMA_VERSION)
    expect(await byHand.schema.migrate()).toEqual({ from: SCHEMA_VERSION, to: SCHEMA_VERSION })
    const shape = async (schema: string): Promise<unknown> =>
      (
        await pool.query(
          `select table_name, column_name, data_type, is_nullable from information_schema.columns
            where table_schema = $1 and table_name !~ '[0-9]' order by 1, 2`,
          [schema],
        )
      ).rows
    expect(await shape('by_hand')).toEqual(await shape('effectively_once'))
    await pool.end()
  })
})

function outputOf(command: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    let errors = ''
    child.stdout.on('data', (chunk: Buffer) => (output += String(chunk)))
    child.stderr.on('data', (chunk: Buffer) => (errors += String(chunk)))
    child.on('error', reject)
    child.on('exit', (code) => (code === 0 ? resolve(output) : reject(new Error(`exit ${code}: ${errors}`))))
  })
}
