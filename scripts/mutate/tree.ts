import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'

const LEFT_OUT = new Set(['node_modules', '.git', '.compiled', 'dist'])
/** So long may a run that was told to end take for it: its servers end with it. */
const END_MS = 20_000

export type Ran = { readonly kind: 'passed' | 'failed' | 'late'; readonly failed: readonly string[] }

/** A copy of the repository in which a file may be changed, and its tests be run. */
export class Tree {
  readonly root: string

  private constructor(root: string) {
    this.root = root
  }

  static async copy(from: string): Promise<Tree> {
    const root = await mkdtemp(join(tmpdir(), 'effectively-once-mutate-'))
    const filter = (path: string): boolean => !LEFT_OUT.has(basename(path)) || dirname(path) !== from
    await cp(from, root, { recursive: true, filter })
    await symlink(join(from, 'node_modules'), join(root, 'node_modules'))
    return new Tree(root)
  }

  /** While the work runs, the file has another text. */
  async with<T>(file: string, change: (text: string) => string, work: () => Promise<T>): Promise<T> {
    const path = join(this.root, file)
    const text = await readFile(path, 'utf8')
    await writeFile(path, change(text))
    try {
      return await work()
    } finally {
      await writeFile(path, text)
    }
  }

  /** Until the first failure, or until the time is over. */
  async test(files: readonly string[], long: boolean, limitMs: number): Promise<Ran> {
    const report = join(this.root, 'mutate-report.json')
    await rm(report, { force: true })
    const vitest = join(this.root, 'node_modules', 'vitest', 'vitest.mjs')
    const args = [vitest, 'run', '--bail=1', '--no-file-parallelism', '--reporter=json', `--outputFile=${report}`]
    const env = { ...process.env, TESTS: long ? 'long' : '' }
    const child = spawn(process.execPath, [...args, ...files], { cwd: this.root, env, stdio: 'ignore' })
    let late = false
    const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
    const timer = setTimeout(() => {
      late = true
      child.kill('SIGINT')
    }, limitMs)
    const killer = setTimeout(() => child.kill('SIGKILL'), limitMs + END_MS)
    const status = await ended
    clearTimeout(timer)
    clearTimeout(killer)
    if (late) return { kind: 'late', failed: [] }
    if (status === 0) return { kind: 'passed', failed: [] }
    return { kind: 'failed', failed: await failedIn(report, this.root) }
  }

  async remove(): Promise<void> {
    await rm(this.root, { recursive: true, force: true })
  }
}

/** The files with a failure; none where the run ended before it could tell. */
async function failedIn(report: string, root: string): Promise<string[]> {
  const text = await readFile(report, 'utf8').catch(() => '{}')
  const { testResults = [] } = JSON.parse(text) as { testResults?: { name: string; status: string }[] }
  return testResults.filter(({ status }) => status === 'failed').map(({ name }) => name.slice(root.length + 1))
}
