/**
 * Makes what the package ships: `tsx scripts/build.ts [dist]`.
 *
 * - JavaScript: one file per subpath, and chunks for what subpaths share. Comments and blanks are left out and local
 *   names are short; functions and classes keep their names, so a stack trace can be read.
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
  'story/main': 'examples/story/main.ts',
  'story/child': 'examples/story/child.ts',
}

/** What is never used goes. Statements and names stay, so that a stack trace can be read. */
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
    // Clients are the user's, and the playground is not shipped: the story of the package ends before it.
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
  // A set that grows is read to its end.
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
