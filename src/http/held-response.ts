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
 * One response that is held. Its prototype is exchanged for one that asks the holder, made once per kind of response:
 * twelve properties put on every response, and taken off again, cost more than the rest of holding it.
 */
export class HeldResponse {
  readonly #res: Held
  readonly #base: ServerResponse
  /** Own properties that others put there before, under the names of ours. */
  #aside: Map<string, PropertyDescriptor> | undefined
  #socket: ServerResponse['socket']
  readonly #isPipelined: boolean

  constructor(res: ServerResponse, holder: Holder) {
    this.#res = res as Held
    this.#base = Object.getPrototypeOf(res) as ServerResponse
    this.#socket = res.socket
    this.#isPipelined = res.socket === null
    this.#res[HOLDER] = holder
    const held = heldPrototype(this.#base)
    Object.setPrototypeOf(res, held)
    for (const name of NAMES) {
      if (!Object.hasOwn(res, name)) continue
      const own = Object.getOwnPropertyDescriptor(res, name) as PropertyDescriptor
      this.#aside = (this.#aside ?? new Map()).set(name, own)
      Object.defineProperty(res, name, Object.getOwnPropertyDescriptor(held, name) as PropertyDescriptor)
    }
    this.#hideSocket()
  }

  /** The response as it was, without what a handler put over it meanwhile: that has done its work. */
  letGo(): void {
    const res = this.#res
    res[HOLDER] = undefined
    Object.setPrototypeOf(res, this.#base)
    for (const name of NAMES) {
      const aside = this.#aside?.get(name)
      if (aside) Object.defineProperty(res, name, aside)
      else if (Object.hasOwn(res, name)) Reflect.deleteProperty(res, name)
    }
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

interface Held extends ServerResponse {
  [HOLDER]: Holder | undefined
}

const prototypes = new WeakMap<ServerResponse, object>()

function heldPrototype(base: ServerResponse): object {
  let held = prototypes.get(base)
  if (!held) prototypes.set(base, (held = Object.create(base, descriptorsOver(base)) as object))
  return held
}

/** A response that is no longer held may still be asked this way, by whoever took a method off it. */
function descriptorsOver(base: ServerResponse): PropertyDescriptorMap {
  const call = (res: Held, name: keyof ServerResponse, args: readonly unknown[]): unknown =>
    Reflect.apply(base[name] as (...all: unknown[]) => unknown, res, args)
  const methods = {
    write(this: Held, ...args: Parameters<Holder['write']>): unknown {
      const holder = this[HOLDER]
      return holder ? holder.write(...args) : call(this, 'write', args)
    },
    end(this: Held, ...args: Parameters<Holder['end']>): unknown {
      const holder = this[HOLDER]
      if (!holder) return call(this, 'end', args)
      holder.end(...args)
      return this
    },
    writeHead(this: Held, ...args: Parameters<Holder['writeHead']>): unknown {
      const holder = this[HOLDER]
      if (!holder) return call(this, 'writeHead', args)
      holder.writeHead(...args)
      return this
    },
    flushHeaders(this: Held): unknown {
      const holder = this[HOLDER]
      return holder ? holder.flushHeaders() : call(this, 'flushHeaders', [])
    },
    addTrailers(this: Held, ...args: unknown[]): unknown {
      return this[HOLDER] ? undefined : call(this, 'addTrailers', args)
    },
    emit(this: Held, event: string, ...args: unknown[]): unknown {
      const holder = this[HOLDER]
      if (holder && event === 'pipe') holder.piped()
      if (!holder || event !== 'close') return call(this, 'emit', [event, ...args])
      holder.closed()
      return false
    },
    ...Object.fromEntries(
      (['writeContinue', 'writeProcessing', 'writeEarlyHints'] as const).map((name) => [
        name,
        function informational(this: Held, ...args: unknown[]): unknown {
          if (!this[HOLDER]) return call(this, name, args)
          throw onceError('ONCE_ANSWER_INVALID', { detail: 'Informational answers cannot be held until the commit' })
        },
      ]),
    ),
  }
  return {
    ...Object.fromEntries(Object.entries(methods).map(([name, value]) => [name, dataOf(value)])),
    headersSent: endedOver(base, 'headersSent'),
    writableEnded: endedOver(base, 'writableEnded'),
  }
}

function endedOver(base: ServerResponse, name: 'headersSent' | 'writableEnded'): PropertyDescriptor {
  return {
    get(this: Held): unknown {
      const holder = this[HOLDER]
      return holder ? holder.isEnded : Reflect.get(base, name, this)
    },
    configurable: true,
  }
}

const NAMES = [
  'write',
  'end',
  'writeHead',
  'flushHeaders',
  'addTrailers',
  'emit',
  'writeContinue',
  'writeProcessing',
  'writeEarlyHints',
  'headersSent',
  'writableEnded',
] as const

function dataOf(value: unknown): PropertyDescriptor {
  return { value, writable: true, configurable: true, enumerable: true }
}
