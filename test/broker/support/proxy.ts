import { createConnection, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { once } from 'node:events'

/** A server's address that can be taken away: connections are cut and refused, as if the server had been stopped. */
export interface Proxy {
  readonly url: string
  halt(): Promise<void>
  resume(): Promise<void>
  /** A firewall forgets the connections there are: nothing goes through any more, and nobody is told. New ones work. */
  blackHole(): void
  close(): Promise<void>
}

export async function proxyOf(url: string): Promise<Proxy> {
  const target = new URL(url)
  const open = new Set<Socket>()
  const links = new Set<{ readonly near: Socket; readonly far: Socket }>()
  const server: Server = createServer((near) => {
    const far = createConnection({ host: target.hostname, port: Number(target.port) })
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        open.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far).pipe(near)
    links.add({ near, far })
    near.on('close', () => [...links].filter((link) => link.near === near).forEach((link) => links.delete(link)))
  })
  const listen = async (port: number): Promise<void> => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  await listen(0)
  const { port } = server.address() as AddressInfo
  const near = new URL(url)
  near.port = String(port)
  const halt = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of open) socket.destroy()
    await closed
  }
  return {
    url: near.href.replace(/\/$/, ''),
    halt,
    resume: () => listen(port),
    blackHole() {
      for (const { near, far } of links) {
        near.unpipe(far)
        far.unpipe(near)
        // Read, so that the other side notices nothing.
        near.on('data', () => {})
        far.on('data', () => {})
      }
      links.clear()
    },
    close: async () => {
      if (server.listening) await halt()
    },
  }
}
