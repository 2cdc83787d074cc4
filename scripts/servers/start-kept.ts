import { existsSync } from 'node:fs'
import { chown, mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { keep, logTail, makeDirectory, sweepLeftovers } from './keep.ts'
import type { Owner } from './keep.ts'
import { freePort, messageOf, run, untilReady } from './process.ts'
import type { RunningServer } from './recipe.ts'

const DOCKER_ANSWER_MS = 5_000
const DOCKER_PULL_MS = 300_000
const PORT_ATTEMPTS = 3

export interface KeptStart {
  readonly owner: Owner
  readonly readyMs: number
  readonly stopSignal?: 'SIGINT' | 'SIGTERM'
  /** Writes the server's configuration into its folder, and returns the command that runs it. */
  prepare(params: { readonly port: number; readonly directory: string }): Promise<{
    readonly command: string
    readonly args: readonly string[]
    readonly env?: Record<string, string>
    readonly url: string
  }>
  /** Rejects until the server is ready. */
  answers(url: string): Promise<void>
}

/** Starts a server on a free port and in a folder of its own, under a keeper. The server can be halted and resumed. */
export async function startKept({
  owner,
  readyMs,
  stopSignal = 'SIGTERM',
  prepare,
  answers,
}: KeptStart): Promise<RunningServer> {
  await sweepLeftovers()
  let last: unknown
  // Another process may take the port between the check and the start.
  for (let attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
    const port = await freePort()
    const directory = await makeDirectory(owner)
    const { url, command, args, env = {} } = await prepare({ port, directory })
    const kept = keep({ command, args, env, stopSignal, directory, ...owner })
    const ready = (): Promise<void> => untilReady(() => answers(url), { timeoutMs: readyMs, ended: kept.ended })
    try {
      await ready()
      const resume = async (): Promise<void> => {
        kept.resume()
        await ready()
      }
      return { url, stop: () => kept.stop(), halt: (signal) => kept.halt(signal), resume }
    } catch (error) {
      last = new Error(`${messageOf(error)}: ${await logTail(kept.logFile)}`, { cause: error })
      if (existsSync(directory)) await kept.stop()
      if (!/in use|allocated|eaddrinuse/i.test(messageOf(last))) break
    }
  }
  throw last
}

/** Writes a file into a server's folder, readable by the server. */
export async function give(file: string, text: string, owner: Owner): Promise<string> {
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text, { mode: 0o600 })
  if (owner.uid !== undefined && owner.gid !== undefined) await chown(file, owner.uid, owner.gid)
  return file
}

/** Throws when no Docker engine answers. Pulls the image if it is missing. */
export async function dockerImage(image: string): Promise<void> {
  await run('docker', ['info', '--format', '{{.ServerVersion}}'], { timeoutMs: DOCKER_ANSWER_MS })
  await run('docker', ['image', 'inspect', '--format', '{{.Id}}', image], { timeoutMs: DOCKER_ANSWER_MS }).catch(() =>
    run('docker', ['pull', '--quiet', image], { timeoutMs: DOCKER_PULL_MS }),
  )
}
