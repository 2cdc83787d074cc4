import { request as httpRequest } from 'node:http'
import { randomUUID } from 'node:crypto'

/** A server under test. */
export interface HttpTarget {
  /** The URL of the server. It must serve the routes of `contractRoutes`. */
  readonly base: string
  /** The number of rows that the operation with this key has committed to `contract_effect`. */
  effects(key: string): Promise<number>
  /** The number of times that a handler ran for this key. */
  runs(key: string): number
  /**
   * Makes the next commit fail after the handler has answered. 'lost': the reply to the commit is lost. 'fault': the
   * store throws an unexpected error. Leave this out if the server under test cannot do so.
   */
  failNextCommit?(how: 'lost' | 'fault'): void
  readonly features: {
    /** The framework's own error handling turns a thrown error with a status into a response. */
    readonly errorStatus: boolean
    /** The framework answers by itself when a handler does not. Otherwise the error is ONCE_NO_ANSWER. */
    readonly answersItself: boolean
    /** The server serves `contractBatched` at POST /batched. */
    readonly batched?: boolean
  }
}

export interface Seen {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Uint8Array
  readonly text: string
}

export interface Sent {
  readonly path?: string
  readonly method?: string
  readonly key?: string | readonly string[] | null
  readonly body?: string | Uint8Array
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A minimal HTTP client for one server. */
export class Client {
  readonly #base: string

  constructor(base: string) {
    this.#base = base
  }

  newKey(): string {
    return randomUUID()
  }

  async send({ path = '/orders', method = 'POST', key, body = '{"amount":5}', type, headers }: Sent): Promise<Seen> {
    const { status, headers: seen, bytes } = await this.#raw({ path, method, key, body, type, headers })
    return { status, headers: seen, bytes, text: new TextDecoder().decode(bytes) }
  }

  /** Sends a request and closes the connection after a while. */
  async leave({ path = '/slow', key, body = '{"amount":5}' }: Sent, afterMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const req = httpRequest(`${this.#base}${path}`, { method: 'POST', headers: headersOf(key, body, undefined) })
      req.on('error', () => resolve())
      req.on('close', () => resolve())
      req.end(body)
      setTimeout(() => req.destroy(), afterMs)
    })
  }

  #raw(sent: {
    path: string
    method: string
    key: Sent['key']
    body: string | Uint8Array
    type: string | undefined
    headers: Sent['headers']
  }): Promise<{ status: number; headers: Headers; bytes: Uint8Array }> {
    const { path, method, key, body, type, headers } = sent
    return new Promise((resolve, reject) => {
      const bodyless = method === 'GET' || method === 'HEAD'
      const req = httpRequest(
        `${this.#base}${path}`,
        { method, headers: { ...headersOf(key, bodyless ? '' : body, type), ...headers } },
        (res) => {
          const chunks: Uint8Array[] = []
          res.on('data', (chunk: Uint8Array) => chunks.push(chunk))
          res.on('error', reject)
          res.on('end', () => {
            const seen = new Headers()
            for (let i = 0; i < res.rawHeaders.length; i += 2) {
              seen.append(String(res.rawHeaders[i]), String(res.rawHeaders[i + 1]))
            }
            resolve({ status: res.statusCode ?? 0, headers: seen, bytes: Buffer.concat(chunks) })
          })
        },
      )
      req.on('error', reject)
      req.end(bodyless ? undefined : body)
    })
  }
}

function headersOf(
  key: Sent['key'],
  body: string | Uint8Array,
  type: string | undefined,
): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {}
  if (typeof body !== 'string' || body !== '') {
    headers['content-type'] = type ?? 'application/json'
    headers['content-length'] = String(Buffer.byteLength(body))
  }
  if (key !== undefined && key !== null) headers['idempotency-key'] = typeof key === 'string' ? key : [...key]
  return headers
}
