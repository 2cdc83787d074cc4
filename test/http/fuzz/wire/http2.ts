import { type ClientHttp2Session, connect, constants, type IncomingHttpHeaders } from 'node:http2'
import type { Ask, Heard, Message } from './message.ts'

/** One session. Its streams are told apart by HTTP/2 itself, so requests go out side by side. */
export class Http2Connection {
  readonly #session: ClientHttp2Session
  #closed = false

  constructor(port: number) {
    this.#session = connect(`http://127.0.0.1:${port}`)
    const over = (): void => {
      this.#closed = true
    }
    this.#session.on('error', over).on('close', over).on('goaway', over)
  }

  get isOpen(): boolean {
    return !this.#closed && !this.#session.destroyed
  }

  async ask(asks: readonly Ask[], patienceMs: number): Promise<Heard> {
    const messages = await Promise.all(asks.map((ask) => this.#one(ask, patienceMs)))
    const impatient = messages.includes('impatient')
    const whole = messages.map((message) => (typeof message === 'string' ? null : message))
    const ended = whole.every((message) => message !== null) ? 'answered' : impatient ? 'impatient' : 'closed'
    return { messages: whole, malformed: null, ended }
  }

  close(): void {
    this.#session.destroy()
  }

  #one({ method, path, headers, body }: Ask, patienceMs: number): Promise<Message | 'closed' | 'impatient'> {
    return new Promise((resolve) => {
      if (!this.isOpen) return resolve('closed')
      const stream = this.#session.request({ ':method': method, ':path': path, ...headers }, { endStream: body === '' })
      const chunks: Buffer[] = []
      const informational: number[] = []
      let head: { status: number; headers: Message['headers'] } | undefined
      let ended = false
      const timer = setTimeout(() => {
        resolve('impatient')
        stream.close(constants.NGHTTP2_CANCEL)
      }, patienceMs)
      stream.on('headers', (got: IncomingHttpHeaders) => informational.push(Number(got[':status'])))
      stream.on('response', (got: IncomingHttpHeaders) => {
        head = { status: Number(got[':status']), headers: pairsOf(got) }
      })
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => (ended = true))
      stream.on('error', () => {})
      stream.on('close', () => {
        clearTimeout(timer)
        const whole =
          head && ended && stream.rstCode === constants.NGHTTP2_NO_ERROR && lengthHolds(head, chunks, method)
        if (!head || !whole) return resolve('closed')
        resolve({ ...head, reason: '', body: Buffer.concat(chunks), informational, untilClose: false })
      })
      if (body !== '') stream.end(body)
    })
  }
}

/** A length that is announced is one over HTTP/2, too. */
function lengthHolds(
  { headers, status }: Pick<Message, 'headers' | 'status'>,
  chunks: Buffer[],
  method: string,
): boolean {
  const said = headers.find(([name]) => name === 'content-length')?.[1]
  if (said === undefined || method === 'HEAD' || status === 304 || status === 204) return true
  return Number(said) === chunks.reduce((sum, { byteLength }) => sum + byteLength, 0)
}

function pairsOf(headers: IncomingHttpHeaders): Message['headers'] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (name.startsWith(':') || value === undefined) return []
    return (Array.isArray(value) ? value : [value]).map((each) => [name, each] as const)
  })
}
