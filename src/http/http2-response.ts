import { type OutgoingHttpHeaders, type ServerResponse, validateHeaderName } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import { onceError } from '../errors.ts'
import { isValue } from './headers.ts'

/** Node's response over HTTP/2 looks like the one of HTTP/1.1, but many of its properties cannot be set. */
export function isHttp2(res: ServerResponse): boolean {
  return 'stream' in res
}

/**
 * The additions that a held response over HTTP/2 needs. It has its own head, because Node's ignores changes once the
 * client has left. It also has properties in place of getters.
 */
export class Http2Head {
  readonly #res: ServerResponse
  readonly #stream: ServerHttp2Stream | undefined
  readonly #headers = new Map<string, OutgoingHttpHeaders[string]>()

  constructor(res: ServerResponse) {
    this.#res = res
    for (const [name, value] of Object.entries(res.getHeaders())) this.#headers.set(name, value)
    this.#stream = (res as unknown as { stream?: ServerHttp2Stream }).stream
    const isGone = this.#stream?.destroyed === true
    Object.assign(res, this.#methods())
    if (this.#stream) for (const name of AROUND) Object.assign(this.#stream, { [name]: refuse(this.#stream, name) })
    this.#own('destroyed', isGone)
    this.#own('socket', null)
  }

  /** Everything is Node's again. */
  letGo(): void {
    const res = this.#res
    if (this.#stream) for (const name of AROUND) Reflect.deleteProperty(this.#stream, name)
    for (const name of [...Object.keys(this.#methods()), 'destroyed', 'socket']) Reflect.deleteProperty(res, name)
    for (const name of res.getHeaderNames()) if (!this.#headers.has(name)) res.removeHeader(name)
    for (const [name, value] of this.#headers) if (value !== undefined) res.setHeader(name, value)
  }

  #own(name: string, value: unknown): void {
    Object.defineProperty(this.#res, name, { value, writable: true, configurable: true, enumerable: true })
  }

  #methods(): Record<string, (...args: never[]) => unknown> {
    const headers = this.#headers
    const res = this.#res
    return {
      setHeader: (name: string, value: OutgoingHttpHeaders[string]) => {
        checkHeader(name, value)
        headers.set(name.toLowerCase(), value)
        return res
      },
      appendHeader: (name: string, value: string | readonly string[]) => {
        checkHeader(name, value)
        const before = headers.get(name.toLowerCase())
        // As in Node, the first value stays a single value. Later values are added to the same list, in place.
        if (before === undefined) return res.setHeader(name, value)
        const list = Array.isArray(before) ? before : [String(before)]
        list.push(...[value].flat())
        headers.set(name.toLowerCase(), list)
        return res
      },
      removeHeader: (name: string) => {
        headers.delete(name.toLowerCase())
      },
      getHeader: (name: string) => headers.get(name.toLowerCase()),
      hasHeader: (name: string) => headers.has(name.toLowerCase()),
      getHeaderNames: () => [...headers.keys()],
      getHeaders: () => Object.fromEntries(headers),
    }
  }
}

/** The first header that Node refuses to send. Node itself would throw when the answer leaves, after the commit. */
export function unfitForHttp2(headers: OutgoingHttpHeaders): string | undefined {
  return Object.keys(headers).find((name) => {
    const value = headers[name]
    if (OF_CONNECTIONS.has(name) || (name === 'te' && value !== 'trailers')) return true
    if (!Array.isArray(value)) return !isValue(value)
    return !value.every(isValue) || (value.length > 1 && hasOneValue(name))
  })
}

/** Node takes only one value of this header over HTTP/2. */
export function hasOneValue(name: string): boolean {
  return OF_ONE_VALUE.test(name)
}

const OF_CONNECTIONS = new Set(['upgrade', 'http2-settings', 'keep-alive', 'proxy-connection', 'transfer-encoding'])

const OF_ONE_VALUE =
  /^(access-control-(allow-credentials|max-age|request-method)|age|(proxy-)?authorization|content-(encoding|language|length|location|md5|range|type)|date|dnt|etag|expires|from|host|if-.*|last-modified|location|max-forwards|range|referer|retry-after|tk|upgrade-insecure-requests|user-agent|x-content-type-options)$/

/** Methods of the stream whose bytes would leave before the commit. */
const AROUND = [
  'respond',
  'respondWithFD',
  'respondWithFile',
  'additionalHeaders',
  'pushStream',
  'write',
  'end',
] as const

function refuse(stream: ServerHttp2Stream, name: (typeof AROUND)[number]): (...args: unknown[]) => unknown {
  return (...args) => {
    // The client has left, and Node itself ends the stream.
    if (stream.closed || stream.destroyed)
      return Reflect.apply(Reflect.get(Object.getPrototypeOf(stream) as object, name), stream, args)
    throw onceError('ONCE_ANSWER_INVALID', {
      detail: `stream.${name} would answer before the commit. Answer through the response`,
    })
  }
}

/** Node would refuse it too, but only when the answer leaves, which is after the commit. */
function checkHeader(name: string, value: unknown): void {
  validateHeaderName(name)
  if (value === undefined || value === null) throw new TypeError(`The header ${name} has no value`)
}
