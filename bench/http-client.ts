import { connect, type Socket } from 'node:net'

/** As little client as possible: one kept connection per caller, one request at a time, its length read from the head. */
export class LeanClient {
  readonly #port: number
  readonly #idle: Socket[] = []

  constructor(port: number) {
    this.#port = port
  }

  async post(path: string, key: string, body: string): Promise<{ readonly status: number; readonly body: string }> {
    const socket = this.#idle.pop() ?? (await this.#open())
    return new Promise((resolve, reject) => {
      let text = ''
      const fail = (): void => reject(new Error('the server hung up'))
      const read = (chunk: string): void => {
        text += chunk
        const head = text.indexOf('\r\n\r\n')
        if (head < 0) return
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, head))?.[1] ?? 0)
        if (text.length < head + 4 + length) return
        socket.off('data', read).off('close', fail)
        this.#idle.push(socket)
        resolve({ status: Number(text.slice(9, 12)), body: text.slice(head + 4) })
      }
      socket.on('data', read).on('close', fail)
      socket.write(
        `POST ${path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nidempotency-key: ${key}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      )
    })
  }

  close(): void {
    for (const socket of this.#idle) socket.destroy()
  }

  #open(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect(this.#port, '127.0.0.1', () => resolve(socket.setEncoding('latin1').setNoDelay()))
      socket.once('error', reject)
    })
  }
}
