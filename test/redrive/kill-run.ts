import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { programBeside } from '../../scripts/program.ts'
import type { RedriveStatus } from '../../src/index.ts'
import { letterLine } from './letters.ts'
import { CONSUMER, openRedriveWorld, temporaryFile } from './world.ts'

export interface KillRun {
  readonly url: string
  readonly letters: number
  /** Letters per second. */
  readonly rate: number
  /** Consumers that are killed. The tool is killed once. */
  readonly kills: number
  readonly timeoutMs: number
}

export interface KillResult {
  readonly letters: number
  readonly applied: number
  readonly twice: number
  readonly lost: number
  readonly outOfOrder: number
  readonly redelivered: number
  readonly kills: number
  readonly status: RedriveStatus
  readonly watchExit: number | null
  readonly ms: number
}

/**
 * Letters are imported and redriven by the real command line, while consumers that are killed at random do the work and
 * their brokers deliver the same ids again. The command line is killed, too, and another one watches to the end.
 */
export async function redriveUnderKills({ url, letters, rate, kills, timeoutMs }: KillRun): Promise<KillResult> {
  const startedAt = performance.now()
  const world = await openRedriveWorld('pg', url)
  const { file, remove } = await temporaryFile()
  const workers = new Set<ChildProcess>()
  let redelivered = 0
  const startWorker = async (): Promise<void> => {
    const { file: program, execArgv } = programBeside(import.meta.url, 'worker')
    const worker = fork(program, [url, String(letters)], { execArgv: [...execArgv] })
    workers.add(worker)
    let last = 0
    worker.on('message', (told: { redelivered: number }) => {
      redelivered += told.redelivered - last
      last = told.redelivered
    })
    await onceEvent(worker, 'message')
  }
  const killWorker = async (): Promise<void> => {
    const [worker] = [...workers].toSorted(() => Math.random() - 0.5)
    if (!worker) return
    workers.delete(worker)
    worker.kill('SIGKILL')
    await onceEvent(worker, 'exit')
  }
  const done = (of: RedriveStatus | undefined): number => (of ? of.letters - of.left : 0)
  const reaches = async (share: number): Promise<void> => {
    while (performance.now() - startedAt < timeoutMs) {
      const [status] = await world.once.redrive.list({ limit: 1 })
      if (done(status) >= letters * share) return
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
    throw new Error(`the redrive stands still: ${JSON.stringify(await world.once.redrive.list({ limit: 1 }))}`)
  }
  try {
    // Makes the consumer known.
    await world.consumer().drain()
    await writeFile(file, Array.from({ length: letters }, (_, n) => `${letterLine(n)}\n`).join(''))
    const imported = await cli(url, ['dead-letters', 'import', file, '--why', 'a test'])
    if (imported.code !== 0) throw new Error(`import failed: ${imported.err}`)
    await Promise.all([startWorker(), startWorker()])
    const tool = startCli(url, ['redrive', 'run', '--consumer', CONSUMER, '--why', 'a test', '--rate', String(rate)])
    const toolEnded = onceEvent(tool, 'exit')
    await reaches(0.15)
    // Were it over, there would be nothing to kill.
    if (tool.exitCode !== null) throw new Error('the tool ended too early')
    tool.kill('SIGKILL')
    await toolEnded
    for (let kill = 1; kill <= kills; kill++) {
      await reaches(0.15 + (0.7 * kill) / (kills + 1))
      await killWorker()
      await startWorker()
    }
    const [{ id }] = (await world.once.redrive.list({ limit: 1 })) as [RedriveStatus]
    const watching = await cli(url, ['redrive', 'watch', String(id), '--json'])
    const status = (await world.once.redrive.status(id)) as RedriveStatus
    const applied = await world.applied()
    const [order] = await world.sql(`
      select count(*)::int4 as n from applied a join applied b
        on a.note::int4 / 5 = b.note::int4 / 5 and a.note::int4 < b.note::int4 and a.seq > b.seq`)
    return {
      letters,
      applied: applied.size,
      twice: [...applied.values()].filter((n) => n > 1).length,
      lost: letters - applied.size,
      outOfOrder: Number(order?.['n']),
      redelivered,
      kills: kills + 1,
      status,
      watchExit: watching.code,
      ms: Math.round(performance.now() - startedAt),
    }
  } finally {
    for (const worker of workers) worker.kill('SIGKILL')
    await world.close()
    await remove()
  }
}

function startCli(url: string, args: readonly string[]): ChildProcess {
  const { execArgv } = programBeside(import.meta.url, 'worker')
  const extension = import.meta.url.endsWith('.js') ? 'js' : 'ts'
  const main = fileURLToPath(new URL(`../../src/cli/main.${extension}`, import.meta.url))
  return spawn(process.execPath, [...execArgv, main, ...args, '--url', url], { stdio: ['ignore', 'pipe', 'pipe'] })
}

async function cli(url: string, args: readonly string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = startCli(url, args)
  const read = { out: '', err: '' }
  child.stdout?.on('data', (chunk: Buffer) => (read.out += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (read.err += chunk.toString()))
  const [code] = (await onceEvent(child, 'close')) as [number | null]
  return { code, ...read }
}
