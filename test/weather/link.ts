import { once } from 'node:events'
import { createConnection, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** The server keeps dropped connections until its own time limits end them, or until this time. */
const DROPPED_MS_MAX = 60_000

/**
 * The connection of one process to PostgreSQL. It can go silent: it forwards nothing and closes nothing. New
 * connections are accepted, but get no answer.
 */
export class Link {
  #target: number
  #silent = false
  readonly #server: Server
  readonly #pairs = new Set<Pair>()

  private constructor(target: number) {
    this.#target = target
    this.#server = createServer((near) => this.#join(near))
  }

  static async open(target: number): Promise<Link> {
    const link = new Link(target)
    link.#server.listen(0, '127.0.0.1')
    await once(link.#server, 'listening')
    return link
  }

  /** The same address, but through this link. */
  through(url: string): string {
    const near = new URL(url)
    near.port = String((this.#server.address() as AddressInfo).port)
    return near.href
  }

  /** The server moved: connections to the old server are closed, because that server is gone. */
  moved(target: number): void {
    this.#target = target
    for (const pair of this.#pairs) pair.end()
  }

  get connections(): number {
    return this.#pairs.size
  }

  silence(): void {
    this.#silent = true
    for (const pair of this.#pairs) pair.silence()
  }

  /** Forwards the bytes that were held back. */
  thaw(): void {
    this.#silent = false
    for (const pair of this.#pairs) pair.thaw()
  }

  /** New connections work. Old ones stay silent for ever, as if their firewall had forgotten them. */
  forget(): void {
    this.#silent = false
    for (const pair of this.#pairs) pair.drop()
  }

  async close(): Promise<void> {
    for (const pair of this.#pairs) pair.end()
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    await closed
  }

  #join(near: Socket): void {
    const pair = new Pair(near, this.#target, () => this.#pairs.delete(pair))
    this.#pairs.add(pair)
    if (this.#silent) pair.silence()
  }
}

class Pair {
  readonly #near: Socket
  readonly #far: Socket
  readonly #gone: () => void
  #silent = false
  #dropped = false

  constructor(near: Socket, target: number, gone: () => void) {
    this.#near = near
    this.#gone = gone
    this.#far = createConnection({ host: '127.0.0.1', port: target })
    near.setNoDelay(true)
    this.#far.setNoDelay(true)
    this.#forward(near, this.#far)
    this.#forward(this.#far, near)
  }

  #forward(from: Socket, to: Socket): void {
    from.on('data', (bytes) => {
      if (!this.#dropped && !to.write(bytes)) from.pause()
    })
    to.on('drain', () => {
      if (!this.#silent) from.resume()
    })
    from.on('error', () => {})
    // A silent link does not forward the end of a connection either.
    from.on('close', () => {
      if (!this.#silent) this.end()
      else if (from === this.#near) setTimeout(() => this.end(), DROPPED_MS_MAX).unref()
    })
  }

  silence(): void {
    this.#silent = true
    this.#near.pause()
    this.#far.pause()
  }

  thaw(): void {
    if (this.#dropped) return
    this.#silent = false
    if (this.#near.destroyed || this.#far.destroyed) return this.end()
    this.#near.resume()
    this.#far.resume()
  }

  drop(): void {
    this.#dropped = true
    // The bytes are read and discarded; otherwise the end of the connection would never be noticed.
    this.#near.resume()
    this.#far.resume()
  }

  end(): void {
    this.#near.destroy()
    this.#far.destroy()
    this.#gone()
  }
}
