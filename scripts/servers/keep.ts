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
  /** The server's private directory: removed when the server has ended. */
  readonly directory: string
  readonly logFile: string
}

/** SIGQUIT: PostgreSQL's immediate stop. SIGKILL: as if it had crashed. */
export type HaltSignal = 'SIGQUIT' | 'SIGKILL'

export interface KeptServer {
  readonly logFile: string
  /** Why the server ended, once it has. */
  ended(): string | undefined
  /** Ends the server and keeps what it has on disk; by this signal, or by the one it is stopped with. */
  halt(signal?: HaltSignal): Promise<void>
  /** Starts a halted server again, on the same port and the same data. It may not answer yet. */
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
    // Its own session: a Ctrl-C in the terminal reaches us, and the server ends in order when we do.
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
  // Neither the keeper nor its pipe may hold this process open: ending is how the keeper learns of it.
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

/** The last lines of a server's log, for the reason of a failed start. */
export async function logTail(logFile: string): Promise<string> {
  const text = await readFile(logFile, 'utf8').catch(() => '')
  return text.trim().split('\n').slice(-3).join(' | ')
}

/**
 * Removes directories whose keeper was itself killed. `endLeftover` ends the server that may still run there; it must
 * make sure that the process is the one of this directory.
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

/** Ends a server whose keeper was killed, after making sure that it works in this very directory. */
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
  // No keeper yet: somebody may be preparing it right now.
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
