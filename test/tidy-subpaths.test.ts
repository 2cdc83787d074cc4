import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { manifestFiles } from '../scripts/manifest.ts'
import { SUBPATHS, type SubpathKind } from '../scripts/subpaths.ts'

const root = new URL('..', import.meta.url)
const names = Object.keys(SUBPATHS)

describe('the list of subpaths', () => {
  it('is written in the package and in the tables of the docs: npm run manifest', () => {
    for (const [file, text] of manifestFiles(root)) expect(readFileSync(new URL(file, root), 'utf8')).toBe(text)
  })

  it('is named whole where the README says what else there is', () => {
    const readme = readFileSync(new URL('README.md', root), 'utf8')
    const named = (kind: SubpathKind, imported: string): string[] => {
      const [, others = ''] = new RegExp(`'effectively-once/${imported}' // or (.*)`).exec(readme) ?? []
      expect(others).not.toBe('')
      return [...others.matchAll(/\/(\w+)/g)]
        .map(([, name = '']) => name)
        .filter((name) => SUBPATHS[name]?.kind === kind)
    }
    const all = (kind: SubpathKind): string[] => names.filter((name) => SUBPATHS[name]?.kind === kind).toSorted()
    expect(['express', ...named('framework', 'express')].toSorted()).toEqual(all('framework'))
    expect(named('broker', 'webhook').toSorted()).toEqual(all('broker'))
  })

  it('is what there is in src/entry', () => {
    const files = readdirSync(new URL('src/entry', root)).map((file) => file.replace(/\.ts$/, ''))
    expect(files.toSorted()).toEqual(names.toSorted())
  })

  it.each(Object.entries(SUBPATHS))('%s is imported on its page', (name, { page }) => {
    expect(readFileSync(new URL(page, root), 'utf8')).toMatch(
      new RegExp(`'effectively-once/${name}'|effectively-once/${name}\\b`),
    )
  })

  it.each(names.filter((name) => SUBPATHS[name]?.kind === 'broker'))('%s is one folder', (name) => {
    for (const file of ['sink.ts', 'source.ts'])
      expect(existsSync(new URL(`src/broker/${name}/${file}`, root))).toBe(true)
  })
})
