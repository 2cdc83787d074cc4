import type { ServerResponse } from 'node:http'
import { onceError } from '../errors.ts'

export type Callback = (error?: Error | null) => void
export type Chunk = string | Uint8Array

/** Who is asked while a response is held, instead of its own methods. */
export interface Holder {
  readonly isEnded: boolean
  write(chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean
  end(chunk?: Chunk | Callback, encoding?: BufferEncoding | Callback, callback?: Callback): void
  writeHead(status: number, reason?: unknown, headers?: unknown): void
  flushHeaders(): void
  /** Somebody pipes into it. */
  piped(): void
  /** The client left. */
  closed(): void
}

/**
 * One response that is held: its methods are replaced by ours, which ask the holder, and given back by assignment. Not
 * taken off again, and the prototype not exchanged: either would make Node's own code slow on this response.
 */
export class HeldResponse {
  readonly #res: Held
  /** Own properties that others put there before, under the names of ours. */
  readonly #own: Partial<Methods> | undefined
  #socket: ServerResponse['socket']
  readonly #isPipelined: boolean

  constructor(res: ServerResponse, holder: Holder) {
    const held = res as Held
    this.#res = held
    this.#own = ownMethods(held)
    this.#socket = res.socket
    this.#isPipelined = res.socket === null
    held[HOLDER] = holder
    // Name by name: a loop over names would make a dictionary of every response.
    held.write = METHODS.write
    held.end = METHODS.end
    held.writeHead = METHODS.writeHead
    held.flushHeaders = METHODS.flushHeaders
    held.addTrailers = METHODS.addTrailers
    held.emit = METHODS.emit
    held.writeContinue = METHODS.writeContinue
    held.writeProcessing = METHODS.writeProcessing
    held.writeEarlyHints = METHODS.writeEarlyHints
    if (!Object.hasOwn(res, 'headersSent')) Object.defineProperties(res, ENDED)
    this.#hideSocket()
  }

  /** The response as it was, without what a handler put over it meanwhile: that has done its work. */
  letGo(): void {
    const res = this.#res
    const own = this.#own
    const base = Object.getPrototypeOf(res) as Methods
    res[HOLDER] = undefined
    res.write = own?.write ?? base.write
    res.end = own?.end ?? base.end
    res.writeHead = own?.writeHead ?? base.writeHead
    res.flushHeaders = own?.flushHeaders ?? base.flushHeaders
    res.addTrailers = own?.addTrailers ?? base.addTrailers
    res.emit = own?.emit ?? base.emit
    res.writeContinue = own?.writeContinue ?? base.writeContinue
    res.writeProcessing = own?.writeProcessing ?? base.writeProcessing
    res.writeEarlyHints = own?.writeEarlyHints ?? base.writeEarlyHints
    if (this.#isPipelined) Object.defineProperty(res, 'socket', dataOf(this.#socket))
    else Object.assign(res, { socket: this.#socket })
  }

  /** A held response has no socket: many look at it to see whether the client is still there. */
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

/** Swallows whatever a handler that outlived its operation still says. */
export function mute(res: ServerResponse): void {
  const silent = (): ServerResponse => res
  const names = ['setHeader', 'appendHeader', 'removeHeader', 'writeHead', 'end', 'flushHeaders']
  Object.assign(res, Object.fromEntries(names.map((name) => [name, silent])), { write: () => true })
}

const HOLDER = Symbol('effectively-once.holder')

// oxlint-disable-next-line no-explicit-any -- as many kinds of arguments as Node has
type Method = (...args: any[]) => any
type Methods = Record<MethodName, Method>
type MethodName =
  | 'write'
  | 'end'
  | 'writeHead'
  | 'flushHeaders'
  | 'addTrailers'
  | 'emit'
  | 'writeContinue'
  | 'writeProcessing'
  | 'writeEarlyHints'

type Held = Omit<ServerResponse, MethodName> & Methods & { [HOLDER]: Holder | undefined }

/** A response that is no longer held may still be asked this way, by whoever took a method off it. */
function unheld(res: Held, name: MethodName, args: readonly unknown[]): unknown {
  return Reflect.apply((Object.getPrototypeOf(res) as Methods)[name], res, args)
}

function informational(name: MethodName): Method {
  return function (this: Held, ...args: unknown[]): unknown {
    if (!this[HOLDER]) return unheld(this, name, args)
    throw onceError('ONCE_ANSWER_INVALID', { detail: 'Informational answers cannot be held until the commit' })
  }
}

const METHODS: Methods = {
  write(this: Held, ...args: Parameters<Holder['write']>): unknown {
    const holder = this[HOLDER]
    return holder ? holder.write(...args) : unheld(this, 'write', args)
  },
  end(this: Held, ...args: Parameters<Holder['end']>): unknown {
    const holder = this[HOLDER]
    if (!holder) return unheld(this, 'end', args)
    holder.end(...args)
    return this
  },
  writeHead(this: Held, ...args: Parameters<Holder['writeHead']>): unknown {
    const holder = this[HOLDER]
    if (!holder) return unheld(this, 'writeHead', args)
    holder.writeHead(...args)
    return this
  },
  flushHeaders(this: Held): unknown {
    const holder = this[HOLDER]
    return holder ? holder.flushHeaders() : unheld(this, 'flushHeaders', [])
  },
  addTrailers(this: Held, ...args: unknown[]): unknown {
    return this[HOLDER] ? undefined : unheld(this, 'addTrailers', args)
  },
  emit(this: Held, event: string, ...args: unknown[]): unknown {
    const holder = this[HOLDER]
    if (holder && event === 'pipe') holder.piped()
    if (!holder || event !== 'close') return unheld(this, 'emit', [event, ...args])
    holder.closed()
    return false
  },
  writeContinue: informational('writeContinue'),
  writeProcessing: informational('writeProcessing'),
  writeEarlyHints: informational('writeEarlyHints'),
}

function ownMethods(res: Held): Partial<Methods> | undefined {
  let own: Partial<Methods> | undefined
  for (const name of Object.keys(METHODS) as MethodName[]) {
    if (Object.hasOwn(res, name)) (own ??= {})[name] = res[name]
  }
  return own
}

/** They stay: once nothing is held, they say what the response says. */
const ENDED: PropertyDescriptorMap = {
  headersSent: endedOver('headersSent'),
  writableEnded: endedOver('writableEnded'),
}

function endedOver(name: 'headersSent' | 'writableEnded'): PropertyDescriptor {
  return {
    get(this: Held): unknown {
      const holder = this[HOLDER]
      return holder ? holder.isEnded : Reflect.get(Object.getPrototypeOf(this) as object, name, this)
    },
    configurable: true,
  }
}

function dataOf(value: unknown): PropertyDescriptor {
  return { value, writable: true, configurable: true, enumerable: true }
}
