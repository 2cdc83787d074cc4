import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A realistic bug, as a change of one place in one source file. The product does not contain it. */
export interface PatchMutant {
  readonly name: string
  /** Relative to the root of the repository: 'src/operation/nested.ts'. */
  readonly file: string
  /** Must occur in the file exactly once. */
  readonly find: string
  readonly replace: string
}

/** A compiled copy of the repository with one mutant applied. */
export interface MutantBuild {
  readonly directory: string
  /** The compiled program for a source path: `entry('scripts/sim.ts')`. */
  entry(program: string): string
  remove(): void
}

const HERE = fileURLToPath(import.meta.url)
const ROOT = rootAbove(dirname(HERE))
let built = 0

/**
 * Makes a compiled copy with the mutant applied, inside the repository, where packages resolve. The caller removes it.
 */
export function buildMutant(mutant: PatchMutant): MutantBuild {
  const source = mutated(mutant)
  const directory = join(ROOT, '.compiled', `mutant-${process.pid}-${++built}`)
  const remove = (): void => rmSync(directory, { recursive: true, force: true })
  try {
    copyInto(directory)
    put(directory, mutant.file, source)
  } catch (error) {
    remove()
    throw error
  }
  return { directory, entry: (program) => join(directory, compiledName(program)), remove }
}

/**
 * The source with the mutant applied. Throws unless the text occurs exactly once, because otherwise the wrong place or
 * no place would change.
 */
export function mutated({ name, file, find, replace }: PatchMutant): string {
  const parts = readFileSync(join(ROOT, file), 'utf8').split(find)
  if (parts.length !== 2)
    throw new Error(`mutant '${name}': its text is in ${file} ${parts.length - 1} times, not once`)
  if (find === replace) throw new Error(`mutant '${name}' changes nothing`)
  return parts.join(replace)
}

/** Copies the running build if it is already compiled. */
function copyInto(directory: string): void {
  if (HERE.endsWith('.js')) cpSync(join(dirname(HERE), '..'), directory, { recursive: true })
  else
    tsc(['-p', join(ROOT, 'tsconfig.json'), '--noEmit', 'false', '--noCheck', '--outDir', directory, '--rootDir', ROOT])
}

function put(directory: string, file: string, source: string): void {
  const workshop = join(directory, '.mutant')
  mkdirSync(dirname(join(workshop, file)), { recursive: true })
  writeFileSync(join(workshop, file), source)
  const compilerOptions = { noEmit: false, noCheck: true, noResolve: true, types: [] }
  const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions, include: [], files: [file] }
  writeFileSync(join(workshop, 'tsconfig.json'), JSON.stringify(config))
  tsc(['-p', workshop, '--outDir', directory, '--rootDir', workshop])
}

function tsc(args: readonly string[]): void {
  const program = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  const { status } = spawnSync(process.execPath, [program, ...args], { cwd: ROOT, stdio: ['ignore', 2, 2] })
  if (status !== 0) throw new Error(`tsc ended with code ${status}`)
}

function compiledName(program: string): string {
  return program.replace(/\.ts$/, '.js')
}

/** A compiled build has a package.json of its own, but no tsconfig.json. */
function rootAbove(directory: string): string {
  return existsSync(join(directory, 'tsconfig.json')) ? directory : rootAbove(dirname(directory))
}
