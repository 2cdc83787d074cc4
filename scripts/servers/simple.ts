import { existsSync } from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { debianBinary, unprivileged } from './debian.ts'
import { keep, logTail, makeDirectory, sweepLeftovers } from './keep.ts'
import type { Owner } from './keep.ts'
import { freePort, messageOf, run, untilReady } from './process.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'

const READY_MS = 20_000
const DOCKER_ANSWER_MS = 5_000
const DOCKER_PULL_MS = 300_000
const PORT_ATTEMPTS = 3

/** A server that is one process, one port and one folder. */
export interface SimpleServer {
  readonly name: string
  readonly environmentVariable: string
  readonly scheme: string
  readonly binary: string
  readonly debianPackage: string
  readonly image: string
  /** The port inside the container. */
  readonly imagePort: number
  args(params: { readonly host: string; readonly port: number; readonly data: string }): readonly string[]
  /** What is asked, and what the answer must contain for the server to be ready. */
  readonly hello: { readonly ask: string; readonly answer: RegExp }
}

/** Docker when an engine answers, else Debian's package. */
export function simpleRecipe(server: SimpleServer): ServerRecipe {
  return {
    name: server.name,
    environmentVariable: server.environmentVariable,
    ways: [
      { name: 'docker', start: () => startInDocker(server) },
      { name: 'debian', start: () => startFromDebian(server) },
    ],
  }
}

async function startFromDebian(server: SimpleServer): Promise<RunningServer> {
  const command = await debianBinary(server.binary, server.debianPackage)
  return startKept(server, await unprivileged(), (port, data) => ({
    command,
    args: server.args({ host: '127.0.0.1', port, data }),
  }))
}

async function startInDocker(server: SimpleServer): Promise<RunningServer> {
  const { image, imagePort } = server
  await run('docker', ['info', '--format', '{{.ServerVersion}}'], { timeoutMs: DOCKER_ANSWER_MS })
  await run('docker', ['image', 'inspect', '--format', '{{.Id}}', image], { timeoutMs: DOCKER_ANSWER_MS }).catch(() =>
    run('docker', ['pull', '--quiet', image], { timeoutMs: DOCKER_PULL_MS }),
  )
  const { uid, gid } = userInfo()
  return startKept(server, {}, (port, data) => ({
    command: 'docker',
    // In the foreground: the signal that ends the command reaches the server. The folder outlives the container.
    args: [
      'run',
      '--rm',
      `--user=${uid}:${gid}`,
      `--volume=${data}:/data`,
      `--publish=127.0.0.1:${port}:${imagePort}`,
      image,
      server.binary,
      ...server.args({ host: '0.0.0.0', port: imagePort, data: '/data' }),
    ],
  }))
}

async function startKept(
  server: SimpleServer,
  owner: Owner,
  order: (port: number, data: string) => { readonly command: string; readonly args: readonly string[] },
): Promise<RunningServer> {
  await sweepLeftovers()
  let last: unknown
  // Another process may take the port between the look and the start.
  for (let attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
    const port = await freePort()
    const directory = await makeDirectory(owner)
    const data = join(directory, 'data')
    await mkdir(data, { mode: 0o700 })
    if (owner.uid !== undefined && owner.gid !== undefined) await chown(data, owner.uid, owner.gid)
    const kept = keep({ ...order(port, data), env: {}, stopSignal: 'SIGTERM', directory, ...owner })
    const ready = (): Promise<void> =>
      untilReady(() => answers(port, server.hello), { timeoutMs: READY_MS, ended: kept.ended })
    try {
      await ready()
      const resume = async (): Promise<void> => {
        kept.resume()
        await ready()
      }
      const url = `${server.scheme}://127.0.0.1:${port}`
      return { url, stop: () => kept.stop(), halt: () => kept.halt(), resume }
    } catch (error) {
      last = new Error(`${messageOf(error)}: ${await logTail(kept.logFile)}`, { cause: error })
      if (existsSync(directory)) await kept.stop()
      if (!/in use|allocated/i.test(messageOf(last))) break
    }
  }
  throw last
}

function answers(port: number, hello: SimpleServer['hello']): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ host: '127.0.0.1', port, timeout: 1_000 })
    let heard = ''
    const end = (error?: Error): void => {
      socket.destroy()
      if (error) reject(error)
      else resolve()
    }
    socket.setEncoding('utf8')
    socket.on('connect', () => socket.write(hello.ask))
    socket.on('data', (text) => {
      heard += String(text)
      if (hello.answer.test(heard)) end()
    })
    socket.on('error', end)
    socket.on('timeout', () => end(new Error('no answer')))
    socket.on('end', () => end(new Error('hung up')))
  })
}
