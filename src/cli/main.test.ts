import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli } from '../../test/cli/run.ts'
import { describePostgres } from '../../test/support/postgres.ts'

const TIMEOUT_MS = 60_000

describe('the command line', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'once-cli-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it(
    'migrates a SQLite file, once, and prints the statements',
    async () => {
      const url = join(folder, 'shop.db')
      expect(JSON.parse((await cli(['migrate', '--url', url, '--json'])).out)).toMatchObject({ from: 0 })
      expect((await cli(['migrate', '--url', url])).out).toContain('nothing to do')
      expect((await cli(['migrate', '--url', url, '--sql'])).out).toContain('create table')
      const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }
      for (const asked of ['version', '--version', '-v'])
        expect(await cli([asked])).toEqual({ code: 0, err: '', out: `${version}\n` })
      expect(await cli(['--help'])).toMatchObject({ code: 0, err: '', out: expect.stringContaining('Exit codes') })
    },
    TIMEOUT_MS,
  )
})

describePostgres('the command line on PostgreSQL', (database) => {
  it(
    'migrates, and says what is missing before',
    async () => {
      expect((await cli(['sweep', '--url', database.url])).err).toContain('Run: npx effectively-once migrate')
      expect(JSON.parse((await cli(['migrate', '--url', database.url, '--json'])).out)).toMatchObject({ from: 0 })
      expect((await cli(['sweep', '--url', database.url])).out).toContain('0 records removed')
    },
    TIMEOUT_MS,
  )
})
