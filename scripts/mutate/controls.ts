import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Reached } from './reached.ts'
import type { Ran, Tests } from './tests.ts'

/** A run of a test file without a change. */
export interface Control {
  readonly kind: Ran['kind']
  readonly why: string
  readonly tookMs: number
  readonly reached: Reached
}

/** Each test file is run once without a change, and the answer is kept for as long as the product and the test stay. */
export class Controls {
  readonly #known = new Map<string, Control>()
  readonly #root: string
  readonly #tests: Tests
  readonly #limitMs: number
  readonly #folder: string
  readonly #product: string

  constructor(root: string, tests: Tests, folder: string, limitMs: number) {
    this.#root = root
    this.#tests = tests
    this.#limitMs = limitMs
    this.#folder = folder
    const shared = ['src', 'test/support']
    const hash = createHash('sha256')
    for (const place of shared) {
      for (const name of readdirSync(join(root, place), { recursive: true, encoding: 'utf8' }).toSorted()) {
        if (name.endsWith('.ts') && !name.endsWith('.test.ts')) hash.update(readFileSync(join(root, place, name)))
      }
    }
    this.#product = hash.digest('hex')
  }

  async of(test: string): Promise<Control> {
    const known = this.#known.get(test)
    if (known) return known
    await mkdir(this.#folder, { recursive: true })
    const text = await readFile(join(this.#root, test))
    const name = createHash('sha256').update(this.#product).update(test).update(text).digest('hex').slice(0, 32)
    const file = join(this.#folder, `${name}.json`)
    const stored = await readFile(file, 'utf8').catch(() => undefined)
    const control = stored === undefined ? await this.#run(test, `${file}.reached`) : (JSON.parse(stored) as Control)
    if (stored === undefined && control.kind === 'passed') await writeFile(file, JSON.stringify(control))
    this.#known.set(test, control)
    return control
  }

  async #run(test: string, reachInto: string): Promise<Control> {
    const startedAt = performance.now()
    const { kind, why } = await this.#tests.run(test, this.#limitMs, reachInto)
    const tookMs = Math.round(performance.now() - startedAt)
    const text = await readFile(reachInto, 'utf8').catch(() => '{"elsewhere":true,"ranges":{}}')
    await rm(reachInto, { force: true })
    return { kind, why, tookMs, reached: JSON.parse(text) as Reached }
  }
}
