import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readFile, readdir, readlink, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { programBeside } from '../program.ts'

const DIRECTORY_PREFIX = 'effectively-once-server-'
const FORGOTTEN_MS = 600_000
const HALT_POLLS = 1_000

export interface Owner {
  readonly uid?: number | undefined
  readonly gid?: number | undefined
}

export interface KeeperOrder extends Owner {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Record<string, string>
  readonly stopSignal: 'SIGINT' | 'SIGTERM'
  /** The server's private directory, which is removed when the server has ended. */
  readonly directory: string
  readonly logFile: string
}

/** SIGQUIT is PostgreSQL's immediate stop. SIGKILL simulates a crash. */
export type HaltSignal = 'SIGQUIT' | 'SIGKILL'

export interface KeptServer {
  readonly logFile: string
  /** The reason why the server ended, once it has. */
  ended(): string | undefined
  /** Ends the server and keeps its data. Uses this signal, or else the signal of an ordinary stop. */
  halt(signal?: HaltSignal): Promise<void>
  /** Restarts a halted server on the same port and the same data. The server may not answer yet. */
  resume(): void
  stop(): Promise<void>
}

/** A private directory for one server, owned by the user the server runs as. */
export async function makeDirectory(owner: Owner): Promise<string> {
  const directory = join(tmpdir(), `${DIRECTORY_PREFIX}${randomUUID()}`)
  await mkdir(directory, { mode: 0o700 })
  if (owner.uid !== undefined && owner.gid !== undefined) await chown(directory, owner.uid, owner.gid)
  await chmod(directory, 0o700)
  return directory
}

/** Starts a server under a keeper, so that it does not outlive this process. */
export function keep(order: Omit<KeeperOrder, 'logFile'>): KeptServer {
  const logFile = join(order.directory, 'server.log')
  const { file, execArgv } = programBeside(import.meta.url, 'keeper')
  const keeper = spawn(process.execPath, [...execArgv, file, JSON.stringify({ ...order, logFile })], {
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    // The keeper has its own session. A Ctrl-C in the terminal reaches only this process, and the keeper then ends the
    // server in order.
    detached: true,
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  let end: string | undefined
  const exited = new Promise<void>((resolve) => {
    keeper.once('error', (error) => {
      end = `the server's keeper did not start: ${error.message}`
      resolve()
    })
    keeper.once('exit', (code) => {
      end ??= `the server ended with code ${code}`
      resolve()
    })
  })
  keeper.stdin.on('error', () => {})
  // Neither the keeper nor its pipe may keep this process alive, because the keeper learns of its end from the closed
  // pipe.
  keeper.unref()
  ;(keeper.stdin as unknown as { unref?: () => void }).unref?.()
  return {
    logFile,
    ended: () => end,
    async halt(signal) {
      const pid = await pidIn(order.directory)
      keeper.stdin.write(`halt ${signal ?? ''}\n`)
      for (let i = 0; i < HALT_POLLS && isRunning(pid); i++) await new Promise((resolve) => setTimeout(resolve, 20))
      if (isRunning(pid)) throw new Error(`server ${pid} does not end`)
    },
    resume: () => void keeper.stdin.write('resume\n'),
    async stop() {
      keeper.ref()
      keeper.stdin.end()
      await exited
      await rm(order.directory, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** The last lines of a server's log, which explain a failed start. */
export async function logTail(logFile: string): Promise<string> {
  const text = await readFile(logFile, 'utf8').catch(() => '')
  return text.trim().split('\n').slice(-3).join(' | ')
}

/**
 * Removes directories whose keeper was killed. `endLeftover` ends the server that may still run there. It must verify
 * that the process belongs to this directory.
 */
export async function sweepLeftovers(
  endLeftover: (directory: string) => Promise<void> = async () => {},
): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(DIRECTORY_PREFIX)) continue
    const directory = join(tmpdir(), name)
    if (await isKept(directory)) continue
    await endLeftover(directory).catch(() => {})
    await endServerOf(directory).catch(() => {})
    await rm(directory, { recursive: true, force: true }).catch(() => {})
  }
}

/** Ends a server whose keeper was killed, after verifying that the server works in this directory. */
async function endServerOf(directory: string): Promise<void> {
  const pid = await pidIn(directory)
  const works = await readlink(`/proc/${pid}/cwd`)
  if (pid > 0 && (works === directory || works.startsWith(`${directory}/`))) process.kill(pid, 'SIGKILL')
}

async function pidIn(directory: string): Promise<number> {
  return Number(await readFile(join(directory, 'server.pid'), 'utf8'))
}

async function isKept(directory: string): Promise<boolean> {
  const pid = Number(await readFile(join(directory, 'keeper.pid'), 'utf8').catch(() => '0'))
  if (pid > 0) return isRunning(pid)
  // The directory has no keeper yet, so another process may be preparing it.
  const info = await stat(directory).catch(() => undefined)
  return info === undefined || Date.now() - info.mtimeMs < FORGOTTEN_MS
}

export function isRunning(pid: number): boolean {
  if (existsSync('/proc/self')) return existsSync(`/proc/${pid}`)
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
