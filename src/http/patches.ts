import type { ServerResponse } from 'node:http'

/** Properties put over those of one response, and taken off again: what others put there before is kept. */
export class Patches {
  readonly #res: ServerResponse
  readonly #under = new Map<string, PropertyDescriptor | undefined>()
  #socket: ServerResponse['socket'] = null

  constructor(res: ServerResponse) {
    this.#res = res
  }

  /** By assignment: it runs for every request, and defining a property is ten times as slow. */
  method(name: string, value: (...args: never[]) => unknown): void {
    this.#remember(name)
    ;(this.#res as unknown as Record<string, unknown>)[name] = value
  }

  getter(name: string, get: () => unknown): void {
    this.#define(name, { get })
  }

  /** A held response has no socket: many look at it to see whether the client is still there. */
  socket(): void {
    this.#socket = this.#res.socket
    this.#define('socket', {
      get: () => null,
      // A pipelined request gets its socket late.
      set: (socket: ServerResponse['socket']) => {
        this.#socket = socket
      },
    })
  }

  undo(): void {
    for (const [name, descriptor] of this.#under) {
      if (name === 'socket') Object.defineProperty(this.#res, name, dataOf(this.#socket))
      else if (descriptor) Object.defineProperty(this.#res, name, descriptor)
      else delete (this.#res as unknown as Record<string, unknown>)[name]
    }
    this.#under.clear()
  }

  #define(name: string, descriptor: PropertyDescriptor): void {
    this.#remember(name)
    descriptor.configurable = true
    Object.defineProperty(this.#res, name, descriptor)
  }

  #remember(name: string): void {
    if (this.#under.has(name)) return
    const own = Object.hasOwn(this.#res, name)
    this.#under.set(name, own ? Object.getOwnPropertyDescriptor(this.#res, name) : undefined)
  }
}

/** Swallows whatever a handler that outlived its operation still says. */
export function mute(res: ServerResponse): void {
  const patches = new Patches(res)
  for (const name of ['setHeader', 'appendHeader', 'removeHeader', 'writeHead', 'end', 'flushHeaders']) {
    patches.method(name, () => res)
  }
  patches.method('write', () => true)
}

function dataOf(value: unknown): PropertyDescriptor {
  return { value, writable: true, configurable: true, enumerable: true }
}
