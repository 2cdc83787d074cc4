/**
 * Runs a TypeScript program of this repository compiled, as users run the package: what a loader adds to every function
 * is nobody's cost in production.
 *
 * node scripts/compiled.mjs bench/main.ts --json
 */
import { spawn, spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
// Inside the repository, where packages resolve; one per run, so that two runs never share half-written files.
const BUILD = join(ROOT, '.compiled', String(process.pid))

const [program, ...args] = process.argv.slice(2)
if (!program?.endsWith('.ts')) {
  console.error('usage: node scripts/compiled.mjs <program.ts> [arguments]')
  process.exit(2)
}

const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
const compiling = ['-p', 'tsconfig.json', '--noEmit', 'false', '--noCheck', '--outDir', BUILD, '--rootDir', '.']
const { status } = spawnSync(process.execPath, [tsc, ...compiling], { cwd: ROOT, stdio: ['ignore', 2, 2] })
if (status !== 0) process.exit(status ?? 1)

const child = spawn(process.execPath, [...process.execArgv, join(BUILD, program.replace(/\.ts$/, '.js')), ...args], {
  stdio: 'inherit',
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
child.on('exit', (code) => {
  rmSync(BUILD, { recursive: true, force: true })
  process.exit(code ?? 1)
})
