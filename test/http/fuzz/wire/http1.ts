import { connect, type Socket } from 'node:net'
import type { Ask, Heard, Message } from './message.ts'
import { Malformed, Parser } from './parse.ts'

/** Nothing may come after the last answer: what belongs to nobody is waited for so long. */
const QUIET_MS = 2

/** One keep-alive connection. */
export class Http1Connection {
  readonly #socket: Socket
  readonly #parser = new Parser()
  readonly #port: number
  #closed = false
  #wake: (() => void) | undefined

  constructor(port: number) {
    this.#port = port
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#socket.on('data', (chunk) => {
      this.#parser.push(chunk)
      this.#wake?.()
    })
    const over = (): void => {
      this.#closed = true
      this.#wake?.()
    }
    this.#socket.on('error', over).on('end', over).on('close', over)
  }

  get isOpen(): boolean {
    return !this.#closed
  }

  /** Pipelined: all requests in one piece. */
  async ask(asks: readonly Ask[], patienceMs: number): Promise<Heard> {
    if (!this.#closed) this.#socket.write(asks.map((ask) => textOf(ask, this.#port)).join(''), 'latin1')
    const until = Date.now() + patienceMs
    const messages: (Message | null)[] = []
    let malformed: string | null = null
    try {
      for (const { method } of asks) {
        const message = await this.#next(method, until)
        if (!message) break
        messages.push(message)
        if (message.untilClose) break
      }
      if (messages.length === asks.length && !this.#closed) await this.#change(QUIET_MS)
      if (messages.length === asks.length && this.#parser.rest.byteLength > 0)
        throw new Malformed(`bytes after the last answer: '${this.#parser.rest.toString('latin1').slice(0, 60)}'`)
      const rest = this.#parser.rest.toString('latin1', 0, 5)
      if (!'HTTP/'.startsWith(rest)) throw new Malformed(`bytes between two answers: '${rest}'`)
    } catch (error) {
      if (!(error instanceof Malformed)) throw error
      malformed = error.message
    }
    // A connection that ended inside of an answer tells the client so; what came in between is not an answer.
    const ended = messages.length === asks.length ? 'answered' : this.#closed ? 'closed' : 'impatient'
    while (messages.length < asks.length) messages.push(null)
    return { messages, malformed, ended }
  }

  close(): void {
    this.#socket.destroy()
  }

  async #next(method: string, until: number): Promise<Message | null> {
    for (;;) {
      const closed = this.#closed
      const message = this.#parser.next(method, closed)
      if (message || closed) return message
      const left = until - Date.now()
      if (left <= 0) return null
      await this.#change(left)
    }
  }

  #change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

function textOf({ method, path, headers, body }: Ask, port: number): string {
  const lines = [`${method} ${path} HTTP/1.1`, `host: 127.0.0.1:${port}`]
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`)
  if (body !== '') lines.push(`content-length: ${Buffer.byteLength(body)}`)
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}
