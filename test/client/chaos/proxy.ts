import { once } from 'node:events'
import { createConnection, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** What may happen to a request on its way. */
const FAULTS = ['dropped request', 'dropped answer', 'cut answer', 'cut connection', 'slow answer'] as const
export type Fault = (typeof FAULTS)[number]

const POST = Buffer.from('POST')
const GET = Buffer.from('GET ')
const CUT_MS_MAX = 5
const SLOW_MS_MAX = 100

/** A TCP proxy that loses requests, answers and connections. */
export class LossyProxy {
  /** The faults that took effect. */
  readonly faults: Record<Fault, number>
  readonly #server: Server
  readonly #target: number
  readonly #random: () => number
  readonly #share: number
  readonly #possible: readonly Fault[]
  readonly #sockets = new Set<Socket>()
  /** Connections whose request was passed on, and has no answer yet. */
  readonly #waiting = new Set<Socket>()
  #onPost: () => void = () => {}

  constructor(target: number, share: number, random: () => number, possible: readonly Fault[] = FAULTS) {
    this.#possible = possible
    this.faults = Object.fromEntries(possible.map((fault) => [fault, 0])) as Record<Fault, number>
    this.#target = target
    this.#share = share
    this.#random = random
    this.#server = createServer((near) => this.#join(near))
  }

  async open(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get inFlight(): number {
    return this.#waiting.size
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Resolves when the next request arrives. */
  nextRequest(): Promise<void> {
    return new Promise((resolve) => (this.#onPost = resolve))
  }

  /** How many kinds of faults never took effect. */
  get unseen(): number {
    return Object.values(this.faults).filter((n) => n === 0).length
  }

  #join(near: Socket): void {
    const far = createConnection(this.#target, '127.0.0.1')
    let fault: Fault | undefined
    let slowMs = 0
    const end = (): void => {
      near.destroy()
      far.destroy()
    }
    const hit = (): void => {
      if (fault) this.faults[fault] += 1
    }
    for (const socket of [near, far]) {
      this.#sockets.add(socket)
      socket.on('error', end)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        this.#waiting.delete(near)
        end()
      })
    }
    near.on('data', (bytes) => {
      // A body may come in a piece of its own.
      if (bytes.subarray(0, 4).equals(GET)) fault = undefined
      if (bytes.subarray(0, 4).equals(POST)) {
        fault = this.#next()
        slowMs = this.#random() * SLOW_MS_MAX
        this.#waiting.add(near)
        this.#onPost()
        if (fault === 'dropped request' || fault === 'cut connection') hit()
        if (fault === 'cut connection') setTimeout(end, this.#random() * CUT_MS_MAX)
      }
      if (fault === 'dropped request') return end()
      far.write(bytes)
      return undefined
    })
    far.on('data', (bytes) => {
      if (this.#waiting.delete(near) && fault !== 'cut connection') hit()
      if (fault === 'dropped answer') return end()
      if (fault === 'cut answer') {
        near.write(bytes.subarray(0, Math.floor(bytes.length * this.#random())), end)
        return undefined
      }
      if (fault === 'slow answer') {
        setTimeout(() => near.destroyed || near.write(bytes), slowMs)
        return undefined
      }
      near.write(bytes)
      return undefined
    })
  }

  #next(): Fault | undefined {
    if (this.#random() >= this.#share) return undefined
    return this.#possible[Math.floor(this.#random() * this.#possible.length)]
  }
}
