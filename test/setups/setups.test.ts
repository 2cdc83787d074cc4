import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findNode, type Runtime } from '../../scripts/servers/runtimes.ts'
import { follow, sectionOf } from './follow.ts'
import { packPackage, type Packed } from './package.ts'

const TIMEOUT_MS = 900_000
const NODE_MAJOR = Number.parseInt(process.versions.node)
const nodes: Record<string, Runtime> = {
  'this Node': { executable: process.execPath },
  'Node 22': await findNode(22),
  'Node 24': await findNode(24),
}

let packed: Packed
let page: string
beforeAll(async () => {
  packed = await packPackage()
  page = await packed.page('docs/setups.md')
}, TIMEOUT_MS)
// Three folders of installed packages take a while to remove.
afterAll(() => packed?.remove(), TIMEOUT_MS)

it('has the sections that are followed here, and no other', () => {
  const headings = [...page.matchAll(/^## (?:<a [^>]*><\/a>)?(.+)$/gm)].map(([, heading]) => heading)
  expect(headings).toEqual([
    'A first file',
    'CommonJS',
    'TypeScript',
    'esbuild',
    'Jest',
    'Jest with ES modules',
    'Jest with a transform',
  ])
})

it.each(['A first file', 'TypeScript'])('%s', { timeout: TIMEOUT_MS }, async (heading) => {
  const folder = await packed.empty(heading.replaceAll(' ', '-'))
  const did = await follow(sectionOf(page, heading), { folder, tarball: packed.tarball })
  expect(did.outputs).toBe(1)
})

describe.each(Object.entries(nodes))('on %s', (name, node) => {
  const missing = 'missing' in node
  const executable = missing ? '' : node.executable
  const folderOf = (heading: string): Promise<string> => packed.empty(`${heading} ${name}`.replaceAll(' ', '-'))

  it.skipIf(missing)('CommonJS', { timeout: TIMEOUT_MS }, async () => {
    const folder = await folderOf('CommonJS')
    const reader = { folder, tarball: packed.tarball, node: executable }
    expect(await follow(sectionOf(page, 'CommonJS'), reader)).toEqual({ files: 1, runs: 2, outputs: 1 })
  })

  it.skipIf(missing)('Jest with ES modules', { timeout: TIMEOUT_MS }, async () => {
    const folder = await folderOf('Jest with ES modules')
    const reader = { folder, tarball: packed.tarball, node: executable }
    expect(await follow(sectionOf(page, 'Jest with ES modules'), reader)).toEqual({ files: 2, runs: 2, outputs: 0 })
  })

  it.skipIf(missing)('Jest with a transform, and without', { timeout: TIMEOUT_MS }, async () => {
    const folder = await folderOf('Jest with a transform')
    const reader = { folder, tarball: packed.tarball, node: executable }
    expect(await follow(sectionOf(page, 'Jest with a transform'), reader)).toEqual({ files: 2, runs: 2, outputs: 0 })
    await writeFile(join(folder, 'jest.config.cjs'), 'module.exports = {}')
    const isNew = name === 'Node 24' || (name === 'this Node' && NODE_MAJOR >= 24)
    expect(await jest(folder, executable, '')).toBe('fails')
    expect(await jest(folder, executable, '--experimental-vm-modules')).toBe(isNew ? 'works' : 'fails')
  })
})

/** Node with SQLite, and with TypeScript. */
describe.each(Object.entries(nodes).filter(([name]) => name !== 'this Node'))('on %s', (name, node) => {
  const missing = 'missing' in node
  const executable = missing ? '' : node.executable

  it.skipIf(missing)('esbuild without libsql', { timeout: TIMEOUT_MS }, async () => {
    const folder = await packed.empty(`esbuild-${name.replaceAll(' ', '-')}`)
    const reader = { folder, tarball: packed.tarball, node: executable }
    expect(await follow(sectionOf(page, 'esbuild'), reader)).toEqual({ files: 1, runs: 2, outputs: 1 })
  })

  it.skipIf(missing)('a TypeScript file without tsx', { timeout: TIMEOUT_MS }, async () => {
    const folder = await packed.empty(`bare-${name.replaceAll(' ', '-')}`)
    const text = sectionOf(page, 'A first file').replaceAll('npx tsx shop.ts', 'node shop.ts')
    const did = await follow(text, { folder, tarball: packed.tarball, node: executable })
    expect(did).toEqual({ files: 1, runs: 2, outputs: 1 })
  })
})

/** The cells of the page's table. */
async function jest(folder: string, node: string, options: string): Promise<'works' | 'fails'> {
  const env = {
    ...process.env,
    NODE_OPTIONS: options,
    PATH: `${dirname(node)}${delimiter}${process.env['PATH'] ?? ''}`,
  }
  const program = join(folder, 'node_modules', 'jest', 'bin', 'jest.js')
  return promisify(execFile)(node, [program], { cwd: folder, env, timeout: TIMEOUT_MS }).then(
    () => 'works',
    (error: { stderr: string }) => {
      expect(error.stderr).toContain('Must use import to load ES Module')
      return 'fails'
    },
  )
}
