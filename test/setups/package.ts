import { cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../scripts/servers/process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const BUILD_MS = 300_000

export interface Packed {
  readonly tarball: string
  /** A page as the tarball has it. */
  page(path: string): Promise<string>
  /** A folder for one project, outside the repository: nothing of it can be found by accident. */
  empty(name: string): Promise<string>
  remove(): Promise<void>
}

/** Builds and packs the package, beside the tree. */
export async function packPackage(): Promise<Packed> {
  const folder = await mkdtemp(join(tmpdir(), 'effectively-once-setups-'))
  const stage = join(folder, 'stage')
  await mkdir(stage)
  const build = ['--import', 'tsx', join('scripts', 'build.ts'), join(stage, 'dist')]
  await run(process.execPath, build, { timeoutMs: BUILD_MS, cwd: ROOT })
  const { files } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { files: string[] }
  const named = files.filter((name) => name !== 'dist' && !name.startsWith('!'))
  for (const name of ['package.json', 'README.md', 'LICENSE', ...named]) {
    await cp(join(ROOT, name), join(stage, name), { recursive: true })
  }
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const printed = await run('npm', pack, { timeoutMs: BUILD_MS, cwd: stage })
  const [{ filename }] = JSON.parse(printed) as [{ filename: string }]
  const tarball = join(folder, filename)
  const opened = join(folder, 'opened')
  await mkdir(opened)
  await run('tar', ['-xzf', tarball, '-C', opened], { timeoutMs: BUILD_MS })
  return {
    tarball,
    page: (path) => readFile(join(opened, 'package', path), 'utf8'),
    async empty(name) {
      const project = join(folder, name)
      await mkdir(project)
      return project
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
