import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { verify, VerificationError } from '../../src/entry/testing.ts'
import { cli, compiled } from '../cli/run.ts'
import { describePostgres } from '../support/postgres.ts'
import { Provider } from './provider.ts'

const TIMEOUT_MS = 300_000
const handler = (name: string): string => fileURLToPath(new URL(`handlers/${name}`, import.meta.url))

let folder: string
let provider: Provider
let address: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'effectively-once-verify-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))
beforeEach(async () => {
  provider = new Provider()
  address = await provider.listen()
})
afterEach(() => {
  vi.unstubAllEnvs()
  provider.close()
})

let files = 0
const freshFile = (): string => join(folder, `shop-${++files}.db`)

interface Outcome {
  readonly code: number
  readonly told: Record<string, unknown>
}

/** The command line on test/verify/handlers/shop.mjs. */
async function verified(how: string, env: Record<string, string>): Promise<Outcome> {
  const dist = pathToFileURL(compiled()).href
  const given = { DIST: dist, HOW: how, ...env }
  const { code, out, err } = await cli(['verify', handler('shop.mjs'), '--json'], { env: given })
  expect(err).toBe('')
  return { code, told: JSON.parse(out) as Record<string, unknown> }
}

/** What a database must show. */
function works(database: () => string): void {
  it(
    'an atomic handler holds',
    async () => {
      const { code, told } = await verified('atomic', { DATABASE: database() })
      expect(told).toMatchObject({ held: true, unreached: [] })
      expect(told['boundaries']).toEqual(['begin', expect.stringContaining('insert into charges'), 'commit', 'answer'])
      // No crash, two at once, before and after three boundaries, before the answer.
      expect(told['schedules']).toBe(9)
      expect(code).toBe(0)
    },
    TIMEOUT_MS,
  )

  it(
    'a handler that charges and then stores in a second transaction is found, with the boundary between the two',
    async () => {
      const { code, told } = await verified('second-transaction', { DATABASE: database(), SINGLE: '1' })
      expect(told).toMatchObject({ held: false, side: 'after', reason: 'expected 1 charge, found 2' })
      expect(told['steps']).toContainEqual(expect.stringContaining('insert into charges'))
      expect(told['steps']).not.toContainEqual(expect.stringContaining('insert into orders'))
      expect(code).toBe(1)
    },
    TIMEOUT_MS,
  )

  it(
    'a leased handler holds, and no retry waits for the lease of a dead process',
    async () => {
      const { code, told } = await verified('leased', { DATABASE: database(), PROVIDER: address })
      expect(told).toMatchObject({ held: true, unreached: [] })
      expect(told['boundaries']).toEqual(
        expect.arrayContaining(['claim with a lease', 'POST /payments', `result of step 'pay'`, 'commit', 'answer']),
      )
      expect(code).toBe(0)
    },
    TIMEOUT_MS,
  )

  it(
    'a step that does not pass its key on is found',
    async () => {
      const { told } = await verified('unkeyed', { DATABASE: database(), PROVIDER: address })
      expect(told).toMatchObject({ held: false, boundary: 'POST /payments', side: 'after' })
      expect(told['reason']).toBe('expected 1 payment, found 2')
    },
    TIMEOUT_MS,
  )
}

describe('verify on SQLite', () => {
  works(freshFile)
})

describePostgres('verify on PostgreSQL', (database) => {
  works(() => database.url)
})

describe('verify', () => {
  it.each([
    ['the crash', { SINGLE: '1' }, 'killed after boundary'],
    ['the double click', {}, 'two calls at once'],
  ])(
    'finds %s of example 06, as a function of a test',
    async (_name, env, schedule) => {
      for (const [name, value] of Object.entries({ FILE: freshFile(), PROVIDER: address, HOW: 'naive', ...env }))
        vi.stubEnv(name, value)
      const module = pathToFileURL(handler('check-then-act.ts'))
      const broken = await verify({ module, import: ['tsx'] }).catch((error: unknown) => error)
      expect(broken).toBeInstanceOf(VerificationError)
      expect((broken as Error).message).toContain(schedule)
      expect((broken as VerificationError).reason).toBe('the customer paid 2 times')
    },
    TIMEOUT_MS,
  )

  it(
    'fails a test of node:test',
    async () => {
      const env = { DIST: pathToFileURL(compiled()).href, HOW: 'second-transaction', DATABASE: freshFile() }
      const run = promisify(execFile)(process.execPath, ['--test', handler('runner.mjs')], {
        env: { ...process.env, ...env, NODE_TEST_CONTEXT: undefined },
      })
      await expect(run).rejects.toMatchObject({
        stdout: expect.stringContaining('two calls at once under the same key'),
      })
    },
    TIMEOUT_MS,
  )

  it(
    'ends in time, and says how far it came',
    async () => {
      const env = { DIST: pathToFileURL(compiled()).href, HOW: 'hangs', DATABASE: freshFile() }
      const { code, err } = await cli(['verify', handler('shop.mjs'), '--within', '3s'], { env })
      expect(err).toContain('ONCE_DEADLINE verify could not run act once within 3s')
      expect(code).toBe(1)
    },
    TIMEOUT_MS,
  )

  it(
    'names what is wrong with a module or an option',
    async () => {
      const write = async (name: string, code: string): Promise<string> => {
        await writeFile(join(folder, name), code)
        return join(folder, name)
      }
      const none = await write('none.mjs', 'export const act = () => {}')
      const words = await write('words.mjs', `export const act = 'charge', check = () => {}`)
      const plain = await write('plain.mjs', 'export const once = {}, act = () => {}, check = () => {}')
      const torn = await write('torn.mjs', `throw new Error('no database')`)
      const bare = await write('bare.mjs', 'throw Object.assign(Object.create(null), { why: 1 })')
      const typed = await write('typed.ts', 'export const act: unknown = 1')
      const told = async (...args: string[]): Promise<string> => {
        const { code, err } = await cli(['verify', ...args])
        return `${code} ${err.trim()}`
      }
      expect(await told(none)).toMatch(
        /^2 ONCE_OPTION_INVALID the module does not export check\. It must export once, /,
      )
      expect(await told(words)).toContain('exports act, which is not a function')
      expect(await told(plain)).toContain('does not export once, made by effectivelyOnce()')
      expect(await told(torn)).toContain('the module could not be loaded: no database')
      expect(await told(bare)).toContain('the module could not be loaded: {"why":1}')
      expect(await told('nowhere.mjs')).toBe('2 ONCE_OPTION_INVALID there is no file "nowhere.mjs"')
      expect(await told(none, '--within', 'soon')).toContain('within must be a duration')
      expect(await told(none, '--import', 'nosuch')).toMatch(
        /^2 ONCE_OPTION_INVALID the modules of --import \(nosuch\) cannot be loaded: .*nosuch/,
      )
      expect(await told()).toBe('2 verify needs the file of a module')
      // Node strips types from 22.18 on.
      if (!(process.features as { typescript?: unknown }).typescript) {
        expect(await told(typed)).toMatch(/cannot load TypeScript .* Then pass --import tsx/)
      }
    },
    TIMEOUT_MS,
  )
})
