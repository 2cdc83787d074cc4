import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describePostgres } from '../../test/support/postgres.ts'

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))

function cli(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const env = { ...process.env, DATABASE_URL: '', NODE_NO_WARNINGS: '1' }
  return new Promise((resolve) => {
    execFile(process.execPath, ['--import', 'tsx', MAIN, ...args], { env }, (error, out, err) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, out, err })
    })
  })
}

describe('the command line', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'once-cli-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it('migrates a SQLite file, once, and sweeps it', async () => {
    const url = join(folder, 'shop.db')
    expect(JSON.parse((await cli('migrate', '--url', url, '--json')).out)).toMatchObject({ from: 0 })
    expect((await cli('migrate', '--url', url)).out).toContain('nothing to do')
    expect(JSON.parse((await cli('sweep', '--url', url, '--json')).out)).toMatchObject({ records: 0 })
    expect((await cli('migrate', '--url', url, '--sql')).out).toContain('create table')
  })

  it.each([
    [['frobnicate'], "unknown command 'frobnicate'"],
    [['migrate'], 'no database'],
    [['migrate', '--url'], 'url'],
    [['migrate', 'now', '--url', 'x.db'], 'too many'],
    [['migrate', '--ulr', 'x'], '--ulr'],
    [['sweep', '--sql', '--url', 'x.db'], '--sql goes with migrate'],
    [['migrate', '--url', 'mysql://localhost/x'], "'mysql' databases"],
    [['migrate', '--url', 'postgres://localhost/x', '--schema', 'No;'], 'schema'],
    [['migrate', '--url', 'x.db', '--schema', 'a'], '--schema is for PostgreSQL'],
  ])('%j is one clear line and exit code 2', async (args, words) => {
    const { code, out, err } = await cli(...args)
    expect(err).toContain(words)
    expect(err.trimEnd().split('\n')).toHaveLength(1)
    expect({ code, out }).toEqual({ code: 2, out: '' })
  })

  it('fails with exit code 1 and one line when nobody answers', async () => {
    const { code, err } = await cli('migrate', '--url', 'postgres://nobody@127.0.0.1:1/none')
    expect(err).toMatch(/^ONCE_STORE_UNAVAILABLE .+\n$/)
    expect(code).toBe(1)
  })

  it('helps', async () => {
    expect((await cli()).out).toContain('migrate --sql')
    expect(await cli('--help')).toMatchObject({ code: 0, err: '' })
  })
})

describePostgres('the command line on PostgreSQL', (database) => {
  it('migrates, and says what is missing before', async () => {
    expect((await cli('sweep', '--url', database.url)).err).toContain('Run: npx effectively-once migrate')
    expect(JSON.parse((await cli('migrate', '--url', database.url, '--json')).out)).toMatchObject({ from: 0 })
    expect((await cli('sweep', '--url', database.url)).out).toContain('0 records removed')
    expect((await cli('migrate', '--url', database.url, '--sql')).out).toContain(
      'create table "effectively_once".record',
    )
  })
})
