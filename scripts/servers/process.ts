import { execFile } from 'node:child_process'
import { createServer } from 'node:net'

/** The message of an error as one line, short enough for a list of reasons. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > 300 ? `${line.slice(0, 300)}…` : line
}

/** A port that was free a moment ago. Listening on it may still fail. */
export async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => {
        if (address && typeof address === 'object') resolve(address.port)
        else reject(new Error('no free port'))
      })
    })
  })
}

export interface RunOptions {
  readonly timeoutMs: number
  readonly uid?: number | undefined
  readonly gid?: number | undefined
  readonly env?: Record<string, string> | undefined
  readonly cwd?: string | undefined
}

/**
 * Runs a command to its end and returns its standard output. The error of a failed command contains its standard error.
 */
export async function run(command: string, args: readonly string[], options: RunOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      command,
      [...args],
      {
        timeout: options.timeoutMs,
        killSignal: 'SIGKILL',
        env: { ...process.env, ...options.env },
        ...(options.uid === undefined ? {} : { uid: options.uid }),
        ...(options.gid === undefined ? {} : { gid: options.gid }),
        ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      },
      (error, stdout, stderr) => {
        if (!error) return resolve(stdout)
        const why = error.killed ? `no end after ${options.timeoutMs} ms` : stderr.trim() || error.message
        reject(new Error(`${command} failed: ${why}`))
      },
    )
  })
}

/** Polls until `probe` succeeds. Gives up early when `ended` returns a reason. */
export async function untilReady(
  probe: () => Promise<void>,
  options: { readonly timeoutMs: number; readonly ended: () => string | undefined },
): Promise<void> {
  const deadline = Date.now() + options.timeoutMs
  let last: unknown
  while (Date.now() < deadline) {
    const end = options.ended()
    if (end !== undefined) throw new Error(end)
    try {
      return await probe()
    } catch (error) {
      last = error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  throw new Error(`not ready after ${options.timeoutMs} ms: ${messageOf(last)}`)
}
