/**
 * Compiles a TypeScript program of this repository and runs it, as users run the package. A loader would add a cost to
 * every function that production does not have.
 *
 * node scripts/compiled.mjs bench/main.ts --json
 */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
// The build is inside the repository, where packages resolve. Each run has its own, so that two runs never share
// half-written files.
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

// The examples import the package by its name, which means the sources compiled above.
const { name, type, exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const compiled = Object.entries(exports).flatMap(([path, target]) =>
  typeof target === 'string' ? [] : [[path, target.default.replace('./dist/', './src/')]],
)
writeFileSync(join(BUILD, 'package.json'), JSON.stringify({ name, type, exports: Object.fromEntries(compiled) }))

const child = spawn(process.execPath, [...process.execArgv, join(BUILD, program.replace(/\.ts$/, '.js')), ...args], {
  stdio: 'inherit',
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
child.on('exit', (code) => {
  rmSync(BUILD, { recursive: true, force: true })
  process.exit(code ?? 1)
})
