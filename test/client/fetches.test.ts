import { createRequire } from 'node:module'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { run } from '../../scripts/servers/process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')

it.each([
  ['Node', ['ES2023']],
  ['a browser', ['ES2023', 'DOM', 'DOM.Iterable']],
])(
  'the option fetch takes the fetch of %s and of undici without a cast',
  async (_, lib) => {
    await mkdir(join(ROOT, '.tmp'), { recursive: true })
    const folder = await mkdtemp(join(ROOT, '.tmp', 'fetches-'))
    try {
      const config = {
        extends: '../../tsconfig.json',
        compilerOptions: { lib, exactOptionalPropertyTypes: true },
        include: [],
        files: ['../../test/client/fetches.ts'],
      }
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
      expect(await run(process.execPath, [tsc, '-p', folder], { timeoutMs: 60_000, cwd: ROOT })).toBe('')
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
  90_000,
)
