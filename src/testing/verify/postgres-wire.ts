const STARTUP = new Set([0x00_03_00_00, 0x00_03_00_02, 80_877_103, 80_877_104])
const HEADER_BYTES = 5

/** The first bytes on a connection to PostgreSQL: the protocol's version, or a request for TLS. */
export function isPostgresStartup(bytes: Buffer): boolean {
  return bytes.length >= 8 && bytes.readInt32BE(0) <= 10_000 && STARTUP.has(bytes.readInt32BE(4))
}

/** Reads the statements that a client sends on one connection. */
export class PostgresWire {
  readonly #prepared = new Map<string, string>()
  #last = ''

  /** The texts of the statements that these messages begin to run. */
  statements(bytes: Buffer): string[] {
    const found: string[] = []
    for (let at = 0; at + HEADER_BYTES <= bytes.length;) {
      const type = String.fromCharCode(bytes[at] ?? 0)
      const body = bytes.subarray(at + HEADER_BYTES, at + 1 + bytes.readInt32BE(at + 1))
      const sql = this.#read(type, body)
      if (sql !== undefined) found.push(sql)
      this.#last = type
      at += 1 + Math.max(4, bytes.readInt32BE(at + 1))
    }
    return found
  }

  #read(type: string, body: Buffer): string | undefined {
    if (type === 'Q') return textAt(body, 0).text
    if (type === 'P') {
      const name = textAt(body, 0)
      const { text } = textAt(body, name.end)
      this.#prepared.set(name.text, text)
      return text
    }
    // A statement that was prepared before. Right after 'P' it is the same one.
    if (type === 'B' && this.#last !== 'P' && this.#last !== 'D') {
      return this.#prepared.get(textAt(body, textAt(body, 0).end).text)
    }
    return undefined
  }
}

function textAt(body: Buffer, start: number): { readonly text: string; readonly end: number } {
  const zero = body.indexOf(0, start)
  const stop = zero < 0 ? body.length : zero
  return { text: body.toString('utf8', start, stop), end: stop + 1 }
}
