import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { invariant } from '../../invariant.ts'
import { systemClock } from '../../platform/clock.ts'
import { TOLD_FD, type Job, type Told } from './boundary.ts'

const HERE = dirname(fileURLToPath(import.meta.url))
/** Bundled in the package, compiled file by file, or as source. */
const PROGRAMS = [join(HERE, '..', 'verify', 'child.js'), join(HERE, 'child.js'), join(HERE, 'child.ts')]
const TAIL_LENGTH_MAX = 2_000
/** How long the pipes of a process that has ended may stay open. */
const PIPES_MS_MAX = 200

export interface ChildOptions {
  /** Modules that Node loads first, such as `tsx`. */
  readonly imports: readonly string[]
  readonly withinMs: number
  readonly signal: AbortSignal | undefined
}

export interface ChildResult {
  readonly told: readonly Told[]
  /** 'killed': at its boundary, by itself. 'late': by us, because it took too long. */
  readonly end: 'killed' | 'ended' | 'late' | 'crashed'
  /** The line of its standard error that names an error, or else the last one. */
  readonly lastWords: string
}

/** Runs one process until it ends, dies at its boundary, or takes too long. */
export async function runChild(job: Job, { imports, withinMs, signal }: ChildOptions): Promise<ChildResult> {
  const program = PROGRAMS.find((path) => existsSync(path))
  invariant(program !== undefined, 'the program of verify is not beside this file')
  const args = [...imports.flatMap((name) => ['--import', name]), program, JSON.stringify(job)]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'pipe', 'pipe'] })
  let told = ''
  let tail = ''
  onText(child.stdio[TOLD_FD] as Readable, (text) => (told += text))
  onText(child.stderr as Readable, (text) => (tail = (tail + text).slice(-TAIL_LENGTH_MAX)))
  let isLate = false
  const kill = (): void => void child.kill('SIGKILL')
  const cancel = systemClock.after(
    withinMs,
    () => {
      isLate = true
      kill()
    },
    true,
  )
  signal?.addEventListener('abort', kill, { once: true })
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
      // A process that the child started may keep the pipes open. The child's own last words are read before they close.
      const closePipes = (): void => child.stdio.forEach((pipe) => pipe?.destroy())
      child.once('exit', () => systemClock.after(PIPES_MS_MAX, () => setImmediate(closePipes)))
    })
    const all = linesOf(told)
    const isKilled = all.at(-1)?.kind === 'killing'
    const end = isKilled ? 'killed' : isLate ? 'late' : code === 0 ? 'ended' : 'crashed'
    const lines = tail.trimEnd().split('\n')
    const words = lines.findLast((line) => /^\S*Error\b/.test(line)) ?? lines.at(-1)
    return { told: all, end, lastWords: words || `it ended with exit code ${code}` }
  } finally {
    cancel()
    signal?.removeEventListener('abort', kill)
  }
}

function onText(stream: Readable, got: (text: string) => void): void {
  stream.setEncoding('utf8').on('data', got)
}

/** A process that was killed may have left half of a line. */
function linesOf(text: string): Told[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Told)
}
