import type { Message } from './message.ts'

/** Thrown by what is not HTTP/1.1 to the letter. */
export class Malformed extends Error {}

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Reads answers off a connection, strictly, and shares no code with Node's parser. */
export class Parser {
  #bytes: Buffer = Buffer.alloc(0)
  #informational: number[] = []

  get rest(): Buffer {
    return this.#bytes
  }

  push(chunk: Buffer): void {
    this.#bytes = this.#bytes.byteLength === 0 ? chunk : Buffer.concat([this.#bytes, chunk])
  }

  /** The next whole answer to a request of this method; null: not yet. `closed`: nothing more will come. */
  next(method: string, closed: boolean): Message | null {
    for (;;) {
      const end = this.#bytes.indexOf('\r\n\r\n')
      if (end < 0) return null
      const lines = this.#bytes.subarray(0, end).toString('latin1').split('\r\n')
      const { status, reason } = statusOf(lines[0] ?? '')
      const headers = lines.slice(1).map(headerOf)
      const from = end + 4
      if (status < 200) {
        this.#informational.push(status)
        this.#bytes = this.#bytes.subarray(from)
        continue
      }
      const body = this.#body(method, status, headers, from, closed)
      if (!body) return null
      this.#bytes = this.#bytes.subarray(body.end)
      const informational = this.#informational
      this.#informational = []
      return { status, reason, headers, body: body.bytes, informational, untilClose: body.untilClose }
    }
  }

  #body(
    method: string,
    status: number,
    headers: Message['headers'],
    from: number,
    closed: boolean,
  ): { bytes: Buffer; end: number; untilClose: boolean } | null {
    const lengths = headers.filter(([name]) => name === 'content-length').map(([, value]) => value)
    const codings = headers.filter(([name]) => name === 'transfer-encoding').map(([, value]) => value)
    if (lengths.length > 1 || codings.length > 1) throw new Malformed('two lengths')
    if (lengths.length > 0 && codings.length > 0) throw new Malformed('Content-Length beside Transfer-Encoding')
    const [length] = lengths
    if (length !== undefined && !/^\d+$/.test(length)) throw new Malformed(`Content-Length ${length}`)
    if (method === 'HEAD' || status === 204 || status === 304)
      return { bytes: Buffer.alloc(0), end: from, untilClose: false }
    if (codings[0] !== undefined) {
      if (codings[0] !== 'chunked') throw new Malformed(`Transfer-Encoding ${codings[0]}`)
      return this.#chunks(from)
    }
    if (length !== undefined) {
      const end = from + Number(length)
      if (this.#bytes.byteLength < end) return null
      return { bytes: this.#bytes.subarray(from, end), end, untilClose: false }
    }
    if (!closed) return null
    return { bytes: this.#bytes.subarray(from), end: this.#bytes.byteLength, untilClose: true }
  }

  #chunks(from: number): { bytes: Buffer; end: number; untilClose: boolean } | null {
    const parts: Buffer[] = []
    let at = from
    for (;;) {
      const end = this.#bytes.indexOf('\r\n', at)
      if (end < 0) return null
      const text = this.#bytes.subarray(at, end).toString('latin1')
      if (!/^[0-9a-fA-F]+$/.test(text)) throw new Malformed(`a chunk of size '${text.slice(0, 40)}'`)
      const size = Number.parseInt(text, 16)
      at = end + 2
      if (size === 0) return this.#trailers(at, parts)
      if (this.#bytes.byteLength < at + size + 2) return null
      parts.push(this.#bytes.subarray(at, at + size))
      at += size
      if (this.#bytes.toString('latin1', at, at + 2) !== '\r\n') throw new Malformed('a chunk without an end')
      at += 2
    }
  }

  #trailers(from: number, parts: readonly Buffer[]): { bytes: Buffer; end: number; untilClose: boolean } | null {
    let at = from
    for (;;) {
      const end = this.#bytes.indexOf('\r\n', at)
      if (end < 0) return null
      if (end === at) return { bytes: Buffer.concat(parts), end: at + 2, untilClose: false }
      headerOf(this.#bytes.subarray(at, end).toString('latin1'))
      at = end + 2
    }
  }
}

function statusOf(line: string): { status: number; reason: string } {
  const found = /^HTTP\/1\.1 (\d{3}) ([\t\x20-\x7e\x80-\xff]*)$/.exec(line)
  if (!found) throw new Malformed(`a status line '${line.slice(0, 60)}'`)
  return { status: Number(found[1]), reason: found[2] ?? '' }
}

function headerOf(line: string): readonly [string, string] {
  const colon = line.indexOf(':')
  const name = line.slice(0, colon)
  const value = line.slice(colon + 1).replace(/^[\t ]+|[\t ]+$/g, '')
  if (colon < 1 || !NAME.test(name) || !VALUE.test(value)) throw new Malformed(`a header '${line.slice(0, 60)}'`)
  return [name.toLowerCase(), value]
}
