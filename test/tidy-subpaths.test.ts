import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { SUBPATHS } from '../scripts/subpaths.ts'
import { readManifest } from './support/sources.ts'

const root = new URL('..', import.meta.url)
const manifest = readManifest()
const names = Object.keys(SUBPATHS)
const peers = Object.assign({}, ...Object.values(SUBPATHS).map((of) => of.peers ?? {})) as Record<string, string>

describe('the list of subpaths', () => {
  it('is what the package exports', () => {
    const built = (name: string): object => ({ types: `./dist/${name}.d.ts`, default: `./dist/${name}.js` })
    expect(manifest.exports).toEqual({
      '.': built('index'),
      ...Object.fromEntries(names.map((name) => [`./${name}`, built(`entry/${name}`)])),
      './package.json': './package.json',
    })
  })

  it('has the peers of the package, each of them optional', () => {
    expect(manifest.peerDependencies).toEqual(peers)
    const optional = Object.fromEntries(Object.keys(peers).map((peer) => [peer, { optional: true }]))
    expect(manifest.peerDependenciesMeta).toEqual(optional)
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
