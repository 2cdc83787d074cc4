import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { Tests } from './tests.ts'

const LEFT_OUT = new Set(['node_modules', '.git', '.compiled', 'dist'])

/** A copy of the repository, in which a file can be changed and its tests can run. */
export class Tree {
  readonly root: string
  readonly tests: Tests

  private constructor(root: string) {
    this.root = root
    this.tests = new Tests(root)
  }

  static async copy(from: string): Promise<Tree> {
    const root = await mkdtemp(join(tmpdir(), 'effectively-once-mutate-'))
    const filter = (path: string): boolean => !LEFT_OUT.has(basename(path)) || dirname(path) !== from
    await cp(from, root, { recursive: true, filter })
    await symlink(join(from, 'node_modules'), join(root, 'node_modules'))
    return new Tree(root)
  }

  /** Changes the text of the file while the work runs. */
  async with<T>(file: string, change: (text: string) => string, work: () => Promise<T>): Promise<T> {
    const path = join(this.root, file)
    const text = await readFile(path, 'utf8')
    await writeFile(path, change(text))
    this.tests.changed(file)
    try {
      return await work()
    } finally {
      await writeFile(path, text)
      this.tests.changed(file)
    }
  }

  async remove(): Promise<void> {
    await this.tests.close()
    await rm(this.root, { recursive: true, force: true })
  }
}
