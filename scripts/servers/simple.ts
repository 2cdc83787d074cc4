import { chown, mkdir } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { debianBinary, unprivileged } from './debian.ts'
import type { Owner } from './keep.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { dockerImage, startKept } from './start-kept.ts'

const READY_MS = 20_000

/** A server that consists of one process, one port and one folder. */
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
  /** A request, and the response that shows that the server is ready. */
  readonly hello: { readonly ask: string; readonly answer: RegExp }
}

/** Uses Docker if an engine answers, or else Debian's package. */
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
  return start(server, await unprivileged(), (port, data) => ({
    command,
    args: server.args({ host: '127.0.0.1', port, data }),
  }))
}

async function startInDocker(server: SimpleServer): Promise<RunningServer> {
  const { image, imagePort } = server
  await dockerImage(image)
  const { uid, gid } = userInfo()
  return start(server, {}, (port, data) => ({
    command: 'docker',
    // The container runs in the foreground, so that the signal that ends the command reaches the server. The folder
    // outlives the container.
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

export interface Command {
  readonly command: string
  readonly args: readonly string[]
}

/** Starts one process with a port and a folder. `order` may write files into the folder. */
export function start(
  server: Pick<SimpleServer, 'scheme' | 'hello'>,
  owner: Owner,
  order: (port: number, data: string) => Command | Promise<Command>,
): Promise<RunningServer> {
  return startKept({
    owner,
    readyMs: READY_MS,
    async prepare({ port, directory }) {
      const data = join(directory, 'data')
      await mkdir(data, { mode: 0o700 })
      if (owner.uid !== undefined && owner.gid !== undefined) await chown(data, owner.uid, owner.gid)
      return { ...(await order(port, data)), url: `${server.scheme}://127.0.0.1:${port}` }
    },
    answers: (url) => answers(Number(new URL(url).port), server.hello),
  })
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
