import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onceError } from '../errors.ts'
import type { Run } from './report.ts'
import { EXIT } from './usage.ts'

const HERE = dirname(fileURLToPath(import.meta.url))

/** The story of examples/story: compiled beside us in the package, as source in a clone. */
const PLACES: readonly { readonly file: string; readonly node: readonly string[] }[] = [
  { file: join(HERE, '..', 'story', 'main.js'), node: [] },
  { file: join(HERE, '..', '..', 'examples', 'story', 'main.ts'), node: ['--import', 'tsx'] },
]

export const demo: Run = async (given, { signal }) => {
  const place = PLACES.find(({ file }) => existsSync(file))
  if (!place) {
    const detail = 'the demo is not part of this package. Clone the repository and run: npm ci && npm start'
    throw onceError('ONCE_UNSUPPORTED', { detail })
  }
  const stdio: StdioOptions = given.json ? ['ignore', 'ignore', 'inherit'] : 'inherit'
  const child: ChildProcess = spawn(process.execPath, [...place.node, place.file, '--story-only'], {
    stdio,
    cwd: join(HERE, '..', '..'),
    signal,
  })
  const code = await new Promise<number>((resolve, reject) => {
    // Interrupted: no failure.
    child.once('error', (error) => (signal.aborted ? resolve(0) : reject(error)))
    child.once('exit', (exit) => resolve(exit ?? 1))
  })
  return { text: '', data: { told: code === 0 }, exit: code === 0 ? EXIT.done : EXIT.failed }
}
