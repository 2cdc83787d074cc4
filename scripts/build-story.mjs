/**
 * Puts the story of examples/story into the package, for `npx effectively-once demo`: compiled, and on the package's own
 * files. Run after `tsc -p tsconfig.build.json`: `node scripts/build-story.mjs [dist]`.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const BUILD = join(ROOT, '.compiled', `story-${process.pid}`)
const STORY = join(process.argv[2] ?? join(ROOT, 'dist'), 'story')

const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
const compiling = ['-p', 'tsconfig.json', '--noEmit', 'false', '--noCheck', '--outDir', BUILD, '--rootDir', '.']
const { status } = spawnSync(process.execPath, [tsc, ...compiling], { cwd: ROOT, stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)
rmSync(STORY, { recursive: true, force: true })
mkdirSync(STORY, { recursive: true })
cpSync(join(BUILD, 'examples', 'story'), STORY, { recursive: true })
for (const name of readdirSync(STORY)) {
  const file = join(STORY, name)
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(`'../../src/`, `'../`))
}
rmSync(BUILD, { recursive: true, force: true })
