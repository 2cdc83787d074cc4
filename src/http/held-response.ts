import type { ServerResponse } from 'node:http'
import { types } from 'node:util'
import { isContinued } from './continue.ts'
import { Http2Head, isHttp2 } from './http2-response.ts'

export type Callback = (error?: Error | null) => void
export type Chunk = string | Uint8Array

/** The holder that answers for the response's own methods while the response is held. */
export interface Holder {
  /** The head is fixed. Later changes of it are refused. */
  readonly isHeadSent: boolean
  readonly isEnded: boolean
  write(chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean
  end(chunk?: Chunk | Callback, encoding?: BufferEncoding | Callback, callback?: Callback): void
  writeHead(status: number, reason?: unknown, headers?: unknown): void
  flushHeaders(): void
  /** The head is changed after it was fixed, so a second answer begins. */
  changedLate(): void
  /** An informational answer is sent. */
  informed(): void
  /** A stream is piped into the response. */
  piped(): void
  /** The handler, or a stream that broke, gives the response up. */
  destroy(): void
  /** The client left. */
  closed(): void
}

/**
 * One held response. Our methods replace its own and ask the holder. Later the original methods are assigned back. They
 * are not deleted, and the prototype is not replaced, because both would make Node's own code slow on this response.
 */
export class HeldResponse {
  readonly #res: HeldServerResponse
  /** Own properties of the response that had the names of our methods before. */
  readonly #own: Partial<Methods> | undefined
  readonly #http2: Http2Head | undefined
  #socket: ServerResponse['socket']
  readonly #isPipelined: boolean

  constructor(res: ServerResponse, holder: Holder) {
    const held = res as HeldServerResponse
    this.#res = held
    this.#own = ownMethods(held)
    this.#http2 = isHttp2(res) ? new Http2Head(res) : undefined
    this.#socket = res.socket
    this.#isPipelined = res.socket === null
    held[OWN] = this.#http2 ? ownMethods(held) : this.#own
    held[HOLDER] = holder
    // Assign each name in code. A loop over names would turn the response into a slow dictionary object.
    held.write = METHODS.write
    held.end = METHODS.end
    held.writeHead = METHODS.writeHead
    held.flushHeaders = METHODS.flushHeaders
    held.addTrailers = METHODS.addTrailers
    held.emit = METHODS.emit
    held.destroy = METHODS.destroy
    held.setTimeout = METHODS.setTimeout
    held.writeContinue = METHODS.writeContinue
    held.writeProcessing = METHODS.writeProcessing
    held.writeEarlyHints = METHODS.writeEarlyHints
    if (!Object.hasOwn(res, 'headersSent')) Object.defineProperties(res, ENDED)
    if (!this.#http2) this.#hideSocket()
  }

  /** From now on a late change of the head is refused without an exception, which could end the process. */
  fixHead(): void {
    const res = this.#res
    res.setHeader = METHODS.setHeader
    res.appendHeader = METHODS.appendHeader
    res.removeHeader = METHODS.removeHeader
    if (!this.#http2) res.setHeaders = METHODS.setHeaders
  }

  /**
   * Restores the response, without methods that the handler replaced meanwhile. Methods that write stay ours, because an
   * answer after the first one must be ignored.
   */
  letGo(): void {
    const res = this.#res
    const own = this.#own
    this.#http2?.letGo()
    res[OWN] = own
    const base = Object.getPrototypeOf(res) as Methods
    res[HOLDER] = undefined
    res.write = METHODS.write
    res.end = own?.end ?? base.end
    res.writeHead = METHODS.writeHead
    this.fixHead()
    res.flushHeaders = own?.flushHeaders ?? base.flushHeaders
    res.addTrailers = own?.addTrailers ?? base.addTrailers
    res.emit = own?.emit ?? base.emit
    res.destroy = own?.destroy ?? base.destroy
    res.setTimeout = own?.setTimeout ?? base.setTimeout
    res.writeContinue = own?.writeContinue ?? base.writeContinue
    res.writeProcessing = own?.writeProcessing ?? base.writeProcessing
    res.writeEarlyHints = own?.writeEarlyHints ?? base.writeEarlyHints
    if (this.#http2) return
    if (this.#isPipelined) Object.defineProperty(res, 'socket', dataOf(this.#socket))
    else Object.assign(res, { socket: this.#socket })
  }

  /** A held response has no socket. Many libraries use the socket to see whether the client is still there. */
  #hideSocket(): void {
    if (!this.#isPipelined) {
      Object.assign(this.#res, { socket: null })
      return
    }
    // A pipelined request gets its socket late, and would send at once.
    const set = (socket: ServerResponse['socket']): void => {
      this.#socket = socket
    }
    Object.defineProperty(this.#res, 'socket', { get: () => null, set, configurable: true, enumerable: true })
  }
}

/** Whether the response is already held. A second holder would release what the first one must hold. */
export function isHeld(res: ServerResponse): boolean {
  return (res as HeldServerResponse)[HOLDER] !== undefined
}

/**
 * The answer was given to the code around the route. Further answers are ignored. Some of that code sends the answer
 * later (a session is saved first), and may change headers while the head is written.
 */
export function ignoreLater(res: ServerResponse): void {
  const over = res as HeldServerResponse
  if (over[LEFT] !== undefined) return
  over[OWN] = over[HOLDER] === undefined && over.write === METHODS.write ? over[OWN] : ownMethods(over)
  over[HOLDER] = undefined
  over[LEFT] = { status: res.statusCode, reason: isHttp2(res) ? undefined : res.statusMessage, isSaying: false }
  over.write = METHODS.write
  over.end = METHODS.end
  over.writeHead = METHODS.writeHead
  over.setHeader = METHODS.setHeader
  over.appendHeader = METHODS.appendHeader
  over.removeHeader = METHODS.removeHeader
  over.setHeaders = METHODS.setHeaders
}

const HOLDER = Symbol('effectively-once.holder')
/** The status and status text of the answer that has left. */
const LEFT = Symbol('effectively-once.left')
/** Properties that replace those of the prototype. */
const OWN = Symbol('effectively-once.own')

// oxlint-disable-next-line no-explicit-any -- as many kinds of arguments as Node has
type Method = (...args: any[]) => any
type Methods = Record<MethodName, Method>
type HeadMethodName = 'setHeader' | 'appendHeader' | 'removeHeader' | 'setHeaders'
type MethodName =
  | HeadMethodName
  | 'write'
  | 'end'
  | 'writeHead'
  | 'flushHeaders'
  | 'addTrailers'
  | 'emit'
  | 'destroy'
  | 'setTimeout'
  | 'writeContinue'
  | 'writeProcessing'
  | 'writeEarlyHints'

type HeldServerResponse = Omit<ServerResponse, MethodName> &
  Methods & {
    [HOLDER]: Holder | undefined
    [OWN]: Partial<Methods> | undefined
    [LEFT]?: { readonly status: number; readonly reason: string | undefined; isSaying: boolean }
    readonly _header: string | null
  }

/** The state before the response was held. */
function unheld(res: HeldServerResponse, name: MethodName, args: readonly unknown[]): unknown {
  return Reflect.apply(res[OWN]?.[name] ?? (Object.getPrototypeOf(res) as Methods)[name], res, args)
}

/** Refuses without an exception, which would end the process if it came from a callback. */
function informational(name: MethodName): Method {
  return function (this: HeldServerResponse, ...args: unknown[]): unknown {
    const holder = this[HOLDER]
    // The client has received that, and has sent its body.
    if (holder && name === 'writeContinue' && isContinued(this)) return undefined
    return holder ? holder.informed() : unheld(this, name, args)
  }
}

/** Properties of the head. After it is fixed or has left, they keep their values. */
function head(name: HeadMethodName): Method {
  return function (this: HeldServerResponse, ...args: unknown[]): unknown {
    const holder = this[HOLDER]
    if (holder ? !holder.isHeadSent : (this[LEFT]?.isSaying ?? !this._header)) return unheld(this, name, args)
    holder?.changedLate()
    return this
  }
}

const METHODS: Methods = {
  write(this: HeldServerResponse, ...args: Parameters<Holder['write']>): unknown {
    const holder = this[HOLDER]
    if (holder) return holder.write(...args)
    return this.finished || this[LEFT] ? true : unheld(this, 'write', args)
  },
  end(this: HeldServerResponse, ...args: Parameters<Holder['end']>): unknown {
    const holder = this[HOLDER]
    if (!holder) return this.finished || this[LEFT] ? this : unheld(this, 'end', args)
    holder.end(...args)
    return this
  },
  writeHead(this: HeldServerResponse, ...args: Parameters<Holder['writeHead']>): unknown {
    const holder = this[HOLDER]
    if (holder) holder.writeHead(...args)
    else if (!this._header) return writeHeadOf(this, args)
    return this
  },
  flushHeaders(this: HeldServerResponse): unknown {
    const holder = this[HOLDER]
    return holder ? holder.flushHeaders() : unheld(this, 'flushHeaders', [])
  },
  addTrailers(this: HeldServerResponse, ...args: unknown[]): unknown {
    return this[HOLDER] ? undefined : unheld(this, 'addTrailers', args)
  },
  emit(this: HeldServerResponse, event: string, ...args: unknown[]): unknown {
    const holder = this[HOLDER]
    if (holder && event === 'pipe') holder.piped()
    // HTTP/2 reports an aborted stream as finished.
    if (holder && event === 'finish') return false
    if (!holder || event !== 'close') return unheld(this, 'emit', [event, ...args])
    holder.closed()
    return false
  },
  destroy(this: HeldServerResponse, ...args: unknown[]): unknown {
    const holder = this[HOLDER]
    if (!holder) return unheld(this, 'destroy', args)
    holder.destroy()
    return this
  },
  setTimeout(this: HeldServerResponse, ms: number, callback?: () => void): unknown {
    const { socket } = this.req
    // If earlier answers have not left, the response gets its socket later.
    if (!this[HOLDER] || isHttp2(this) || Reflect.get(socket, '_httpMessage') !== this)
      return unheld(this, 'setTimeout', [ms, callback])
    if (callback) this.on('timeout', callback)
    socket.setTimeout(ms)
    return this
  },
  setHeader: head('setHeader'),
  appendHeader: head('appendHeader'),
  removeHeader: head('removeHeader'),
  setHeaders: head('setHeaders'),
  writeContinue: informational('writeContinue'),
  writeProcessing: informational('writeProcessing'),
  writeEarlyHints: informational('writeEarlyHints'),
}

function writeHeadOf(res: HeldServerResponse, args: readonly unknown[]): unknown {
  const left = res[LEFT]
  if (!left) return unheld(res, 'writeHead', args)
  res.statusCode = left.status
  if (left.reason !== undefined) res.statusMessage = left.reason
  left.isSaying = true
  try {
    return unheld(res, 'writeHead', [left.status])
  } finally {
    left.isSaying = false
  }
}

function ownMethods(res: HeldServerResponse): Partial<Methods> | undefined {
  let own: Partial<Methods> | undefined
  for (const name of NAMES) if (Object.hasOwn(res, name) && res[name] !== METHODS[name]) (own ??= {})[name] = res[name]
  return own
}

const NAMES = Object.keys(METHODS) as MethodName[]

/** These properties stay. Once nothing is held, they return the response's own values. */
const ENDED: PropertyDescriptorMap = {
  headersSent: heldOver('headersSent', 'isHeadSent'),
  writableEnded: heldOver('writableEnded', 'isEnded'),
}

function heldOver(name: 'headersSent' | 'writableEnded', held: 'isHeadSent' | 'isEnded'): PropertyDescriptor {
  return {
    get(this: HeldServerResponse): unknown {
      const holder = this[HOLDER]
      return holder ? holder[held] : Reflect.get(Object.getPrototypeOf(this) as object, name, this)
    },
    configurable: true,
  }
}

/** Exactly the values that Node would write. */
export function bytesOf(chunk: Chunk, encoding: BufferEncoding | undefined): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk, encoding ?? 'utf8')
  if (types.isUint8Array(chunk)) return Buffer.from(chunk)
  const error = new TypeError('The "chunk" argument must be of type string or an instance of Buffer or Uint8Array')
  throw Object.assign(error, { code: 'ERR_INVALID_ARG_TYPE' })
}

function dataOf(value: unknown): PropertyDescriptor {
  return { value, writable: true, configurable: true, enumerable: true }
}
