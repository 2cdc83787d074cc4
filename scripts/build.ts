/**
 * Builds the published files: `tsx scripts/build.ts [dist]`.
 *
 * - JavaScript: one file per subpath, and chunks for code that subpaths share. Comments and blanks are removed, and
 *   local names are shortened. Functions and classes keep their names, so that stack traces stay readable.
 * - Declarations: those that a subpath reaches, with their comments.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { SUBPATHS } from './subpaths.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const OUT = resolve(process.argv[2] ?? join(ROOT, 'dist'))

const SUBPATH_FILES = ['index', ...Object.keys(SUBPATHS).map((name) => `entry/${name}`)]
const PROGRAMS = {
  'cli/main': 'src/cli/main.ts',
  'verify/child': 'src/testing/verify/child.ts',
  'story/main': 'examples/story/main.ts',
  'story/child': 'examples/story/child.ts',
}

/** Removes unused code. Statements and names stay, so that stack traces stay readable. */
const COMPRESS = { keepNames: { function: true, class: true }, sequences: false, joinVars: false }

rmSync(OUT, { recursive: true, force: true })
writeDeclarations()
await writeJavaScript()

async function writeJavaScript(): Promise<void> {
  const files = Object.fromEntries(SUBPATH_FILES.map((name) => [name, `src/${name}.ts`]))
  const input = { ...files, ...PROGRAMS }
  const bundle = await rolldown({
    cwd: ROOT,
    input,
    platform: 'node',
    // Users bring their own clients, and the playground is not shipped.
    external: (id) => !/^[./]/.test(id) || id.includes('/playground/'),
  })
  await bundle.write({
    dir: OUT,
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name].js',
    comments: false,
    minify: { compress: COMPRESS, mangle: { toplevel: false, keepNames: true }, codegen: { removeWhitespace: true } },
  })
  await bundle.close()
}

function writeDeclarations(): void {
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  const options = ['-p', 'tsconfig.build.json', '--emitDeclarationOnly', '--outDir', OUT]
  execFileSync(process.execPath, [tsc, ...options], { cwd: ROOT, stdio: 'inherit' })
  const reached = new Set(SUBPATH_FILES.map((name) => join(OUT, `${name}.d.ts`)))
  // The loop also visits the entries that are added to the set meanwhile.
  for (const file of reached) for (const target of declarationsIn(file)) reached.add(target)
  for (const name of readdirSync(OUT, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.d.ts') && !reached.has(join(OUT, name))) rmSync(join(OUT, name))
  }
}

function declarationsIn(file: string): string[] {
  const named = readFileSync(file, 'utf8').matchAll(/(?:from |import\()['"](\.[^'"]+)['"]/g)
  return [...named].map(([, path = '']) => {
    const target = join(dirname(file), path.replace(/\.[jt]s$/, '.d.ts'))
    if (!existsSync(target)) throw new Error(`${file} imports ${path}, which was not built`)
    return target
  })
}
