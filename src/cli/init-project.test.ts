import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { readArguments } from './arguments.ts'
import { FRAMEWORKS } from './init-frameworks.ts'
import { projectIn, type Project } from './init-project.ts'

let root: string

beforeEach(async () => (root = await mkdtemp(join(tmpdir(), 'effectively-once-init-'))))
afterEach(() => rm(root, { recursive: true }))

async function project(files: Readonly<Record<string, string>>): Promise<Project> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), text)
  }
  return projectIn(root, readArguments(['init'], {}))
}

it.each([
  [['vitest', 'jest'], 'vitest'],
  [['jest'], '@jest/globals'],
  [[], 'node:test'],
] as const)('with %j the tests import %s', async (packages, runner) => {
  const devDependencies = Object.fromEntries(packages.map((name) => [name, '*']))
  expect(await project({ 'package.json': JSON.stringify({ devDependencies }) })).toMatchObject({ runner })
})

it.each([
  ['schema.prisma', './generated', '../generated/client.js'],
  ['prisma/schema.prisma', '../generated', '../generated/client.js'],
  ['prisma/schema.prisma', '../once/generated', './generated/client.js'],
])('the client that %s generates to %s is imported from %s', async (schema, output, client) => {
  const text = `generator client {\n  provider = "prisma-client"\n  output = "${output}"\n}\n`
  expect((await project({ 'package.json': '{}', [schema]: text })).prisma.client).toBe(client)
})

it('a framework needs the packages that its files import, and their types', async () => {
  const { devDependencies } = JSON.parse(await readFile('package.json', 'utf8')) as { devDependencies: object }
  for (const { packages, text } of Object.values(FRAMEWORKS)) {
    for (const name of packages) expect(Object.keys(devDependencies)).toContain(name)
    const imported = [...text.matchAll(/from '([^'./][^']*)'/g)].map(([, name]) => name as string)
    const others = imported.filter((name) => !/^(?:node:|effectively-once)/.test(name))
    expect(packages).toEqual(expect.arrayContaining(others))
    const typed = packages.flatMap((name) => (`@types/${name}` in devDependencies ? `@types/${name}` : []))
    expect(packages).toEqual(expect.arrayContaining(typed))
  }
})
