import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'
import { expect, it } from 'vitest'
import { loadedWith } from '../support/exports.ts'
import { productSources } from '../support/sources.ts'

const BYTES_MAX = 6_000

/** Minified and gzipped, with everything that it imports. */
async function weigh(entry: string): Promise<number> {
  const input = fileURLToPath(new URL(`../../src/entry/${entry}.ts`, import.meta.url))
  const bundle = await rolldown({ input, platform: 'browser' })
  const { output } = await bundle.generate({ format: 'es', minify: true })
  await bundle.close()
  return output.reduce((sum, part) => sum + ('code' in part ? gzipSync(part.code, { level: 9 }).length : 0), 0)
}

it(`effectively-once/client has at most ${BYTES_MAX} bytes`, async () => {
  const sizes = { client: await weigh('client'), browser: await weigh('client-browser'), react: await weigh('react') }
  console.log(sizes)
  expect(sizes.client).toBeLessThanOrEqual(BYTES_MAX)
  expect(sizes.browser).toBeLessThanOrEqual(1_500)
  expect(sizes.react).toBeLessThanOrEqual(1_500)
})

it('loads nothing of Node in a browser', () => {
  const sources = productSources()
  for (const entry of ['client', 'client-browser', 'react']) {
    const loaded = new Set(loadedWith(`src/entry/${entry}.ts`, sources))
    const own = sources.filter(({ path }) => loaded.has(path))
    expect(own.length).toBeGreaterThan(1)
    const ofNode = own.flatMap(({ path, imports }) =>
      imports.filter(({ specifier, kind }) => kind !== 'type' && specifier.startsWith('node:')).map(() => path),
    )
    expect(ofNode).toEqual([])
  }
})
