import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { cli } from './run.ts'

const TIMEOUT_MS = 120_000
let cwd: string

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'once-init-odd-'))
})
afterEach(async () => {
  await rm(cwd, { recursive: true, force: true })
})

const init = async (manifest: string, ...args: string[]) => {
  await writeFile(join(cwd, 'package.json'), manifest)
  return cli(['init', ...args], { cwd })
}

describe('init with an odd package.json', { timeout: TIMEOUT_MS }, () => {
  it.each(['null', '5', '"text"'])('refuses %s', async (manifest) => {
    expect(await init(manifest)).toEqual({ code: 2, out: '', err: 'package.json is not a JSON object\n' })
  })

  it('says that package.json cannot be read', async () => {
    await mkdir(join(cwd, 'package.json'))
    const { code, err } = await cli(['init'], { cwd })
    expect({ code, err }).toEqual({ code: 2, err: expect.stringMatching(/package\.json cannot be read: EISDIR\n$/) })
  })

  it.each(['{"name":5}', '{"name":null}', '{"name":{"a":1}}'])(
    'takes %s for a project without a name',
    async (text) => {
      expect(await init(text)).toMatchObject({ code: 0, err: '' })
      expect(readFileSync(join(cwd, 'once', 'once.ts'), 'utf8')).toContain(`namespace: 'app'`)
    },
  )

  it('shortens a long name to what a namespace may be', async () => {
    await init(JSON.stringify({ name: 'x'.repeat(400) }))
    expect(readFileSync(join(cwd, 'once', 'once.ts'), 'utf8')).toContain(`namespace: '${'x'.repeat(100)}'`)
  })

  it.each([
    ['commonjs', `from './charges'`],
    ['module', `from './charges.js'`],
  ])('imports files as Jest and %s can', async (type, words) => {
    await init(JSON.stringify({ type, devDependencies: { jest: '30' } }))
    const [test, charges] = ['charges.test.ts', 'charges.ts'].map((name) =>
      readFileSync(join(cwd, 'once', name), 'utf8'),
    )
    expect(test).toContain(words)
    expect(charges).toContain(words.replace('charges', 'once'))
    expect(charges).toContain(`from 'effectively-once/node'`)
  })

  it('reads no schema.prisma that is a folder', async () => {
    await mkdir(join(cwd, 'prisma', 'schema.prisma'), { recursive: true })
    expect(await init('{"dependencies":{"@prisma/client":"7"}}', '--dry-run')).toMatchObject({ code: 0, err: '' })
  })
})

it('writes nothing beside a link that points nowhere', { timeout: TIMEOUT_MS }, async () => {
  await mkdir(join(cwd, 'once'))
  await symlink(join(cwd, 'nowhere'), join(cwd, 'once', 'main.ts'))
  expect(await init('{}')).toMatchObject({ code: 2, err: expect.stringContaining('already exists: once/main.ts') })
  expect(readdirSync(join(cwd, 'once'))).toEqual(['main.ts'])
})

describe('init --dir', { timeout: TIMEOUT_MS }, () => {
  it('writes to an absolute folder, and names it in the commands', async () => {
    const dir = join(cwd, 'app', 'else where')
    const { code, out } = await init('{}', '--dir', dir)
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining(`npx tsx '${dir}/migrate.ts'`) })
    expect(existsSync(join(dir, 'main.ts'))).toBe(true)
  })

  it('refuses an empty name', async () => {
    expect(await init('{}', '--dir', '')).toEqual({ code: 2, out: '', err: '--dir must be the name of a folder\n' })
    expect(readdirSync(cwd)).toEqual(['package.json'])
  })
})
