import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { describePostgres, freshDatabase } from '../../test/support/postgres.ts'
import { startAlone, startRecipes } from './index.ts'
import type { ServerRecipe } from './recipe.ts'

describe('which server is taken', () => {
  let stopped = 0
  const recipe: ServerRecipe = {
    name: 'thing',
    environmentVariable: 'THING_URL',
    ways: [
      { name: 'first', start: () => Promise.reject(new Error('no first')) },
      { name: 'second', start: async () => ({ url: 'thing://second', stop: async () => void stopped++ }) },
    ],
  }
  const lacking: ServerRecipe = { ...recipe, ways: recipe.ways.slice(0, 1) }
  beforeEach(() => {
    stopped = 0
  })

  it('takes the one of the environment before any other', async () => {
    const { thing } = await startRecipes({ thing: recipe }, ['thing'], { THING_URL: 'thing://theirs' })
    expect(thing).toEqual({ url: 'thing://theirs', from: 'environment' })
  })
  it('takes the first way that works, and stops it once', async () => {
    const servers = await startRecipes({ thing: recipe }, ['thing', 'thing'], {})
    expect(servers.thing).toEqual({ url: 'thing://second', from: 'second' })
    await servers.stop()
    await servers.stop()
    expect(stopped).toBe(1)
  })
  it('names a missing server with its reasons', async () => {
    const { thing } = await startRecipes({ thing: lacking }, ['thing'], { REQUIRE_SERVICES: 'other' })
    expect(thing).toEqual({ missing: 'THING_URL is not set; first: no first' })
  })
  it.each(['all', 'thing', 'other, thing'])('fails without it under REQUIRE_SERVICES=%s', async (required) => {
    const start = startRecipes({ thing: lacking, other: recipe }, ['thing', 'other'], { REQUIRE_SERVICES: required })
    await expect(start).rejects.toThrow('thing: THING_URL is not set; first: no first')
    expect(stopped).toBe(1)
  })
})

describePostgres('the PostgreSQL of the test run', (database) => {
  let client: pg.Client
  beforeEach(async () => {
    client = new pg.Client({ connectionString: database.url })
    await client.connect()
  })
  afterEach(() => client.end())

  it('is a server whose commits are durable', async () => {
    const { rows } = await client.query(
      `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit`,
    )
    expect(rows).toEqual([{ fsync: 'on', synchronous_commit: 'on' }])
  })

  it('gives every asker an empty database of its own', async () => {
    await client.query('create table only_here (id int)')
    const other = await freshDatabase()
    const otherClient = new pg.Client({ connectionString: other.url })
    await otherClient.connect()
    const { rows } = await otherClient.query(`select to_regclass('only_here') as found`)
    expect(rows).toEqual([{ found: null }])
    await otherClient.end()
    await other.drop()
  })
})

const runs = inject('servers').postgres
const hasDirectory = 'url' in runs && ['embedded', 'debian'].includes(runs.from)

describe.skipIf(!hasDirectory)('a PostgreSQL whose asker is killed', () => {
  it('ends, and leaves nothing behind', async () => {
    const script = `
      import { startServers } from './scripts/servers/index.ts'
      const { postgres } = await startServers(['postgres'])
      console.log(postgres.url)
      setInterval(() => {}, 1000)
    `
    const asker = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = (await once(asker.stdout, 'data')) as [Buffer]
    const url = line.toString().trim()
    const data = await dataDirectory(url)
    expect(data).toMatch(/effectively-once-server-/)
    expect(existsSync(data)).toBe(true)
    asker.kill('SIGKILL')
    await expect.poll(() => existsSync(dirname(data)), { timeout: 15_000 }).toBe(false)
    await expect(dataDirectory(url)).rejects.toThrow('ECONNREFUSED')
  })
})

const redis = inject('servers').redis

describe.skipIf('missing' in redis)('a server of one’s own', () => {
  it('is away while halted, and back with its data and its port', async () => {
    const server = await startAlone('redis')
    if ('missing' in server) throw new Error(server.missing)
    const open = (): Redis => {
      const made = new Redis(server.url, { lazyConnect: true, retryStrategy: () => null })
      return made.on('error', () => {})
    }
    const client = open()
    await client.connect()
    await client.set('kept', 'yes')
    await server.halt?.()
    await expect(open().connect()).rejects.toThrow()
    await server.resume?.()
    await client.connect()
    expect(await client.get('kept')).toBe('yes')
    client.disconnect()
    await server.stop()
  })
})

async function dataDirectory(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    const { rows } = await client.query<{ value: string }>(`select current_setting('data_directory') as value`)
    return rows[0]?.value ?? ''
  } finally {
    await client.end()
  }
}
