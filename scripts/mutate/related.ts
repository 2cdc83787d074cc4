import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'

/** The contract of a store is its test, however far away it is. Tests of the command line start it as a program. */
const HOMES: readonly [start: string, test: string][] = [
  ['src/cli/', 'test/cli/'],
  ['src/store/postgres/', 'src/testing/contract/pg.test.ts'],
  ['src/store/sqlite/', 'src/testing/contract/sqlite.test.ts'],
  ['src/store/sql/', 'src/testing/contract/sqlite.test.ts'],
  ['src/store/memory/', 'src/testing/contract/memory.test.ts'],
]

/** Imports that remain at run time. */
const IMPORT =
  /^\s*(?:import|export)\s(?!type\s)[^'"]*?from\s+'(\.[^']+)'|\bimport\(\s*'(\.[^']+)'|^import\s+'(\.[^']+)'/gm

/** The import graph of the whole repository. */
export class Imports {
  readonly #importers = new Map<string, Set<string>>()
  readonly #reach = new Map<string, number>()

  constructor(root: string, folders: readonly string[] = ['src', 'test', 'scripts']) {
    for (const folder of folders) {
      for (const name of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })) {
        const path = posix.join(folder, name)
        if (path.endsWith('.ts')) this.#read(path, readFileSync(join(root, path), 'utf8'))
      }
    }
  }

  #read(path: string, text: string): void {
    const imported = new Set<string>()
    for (const [, plain, lazy, bare] of text.matchAll(IMPORT)) {
      imported.add(posix.join(dirname(path), (plain ?? lazy ?? bare) as string))
    }
    this.#reach.set(path, imported.size)
    for (const one of imported) {
      const importers = this.#importers.get(one) ?? new Set()
      this.#importers.set(one, importers.add(path))
    }
  }

  /**
   * The tests that import this file directly or indirectly, nearest first. Tests in the file's own folder precede
   * others.
   */
  testsOf(file: string): string[] {
    const distance = new Map([[file, 0]])
    for (const [at, far] of distance) {
      for (const importer of this.#importers.get(at) ?? []) if (!distance.has(importer)) distance.set(importer, far + 1)
    }
    const home = HOMES.find(([start]) => file.startsWith(start))?.[1]
    const isHome = (test: string): boolean => home !== undefined && test.startsWith(home)
    for (const test of this.#reach.keys()) if (isHome(test) && !distance.has(test)) distance.set(test, Infinity)
    const near = (test: string): number[] => [
      isHome(test) ? 0 : 1,
      distance.get(test) ?? 0,
      test === file.replace(/\.ts$/, '.test.ts') ? 0 : 1,
      dirname(test) === dirname(file) ? 0 : 1,
      this.#reach.get(test) ?? 0,
    ]
    return [...distance.keys()].filter((path) => path.endsWith('.test.ts')).toSorted((a, b) => inTurn(near(a), near(b)))
  }
}

function inTurn(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, index) => value !== b[index])
  return at < 0 ? 0 : (a[at] as number) < (b[at] as number) ? -1 : 1
}
