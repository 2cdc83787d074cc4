import type { ServerResponse } from 'node:http'

/**
 * Express replaces the prototype of every response. After the next new property, V8 gives each response a hidden class
 * of its own. Then each new property costs microseconds, and Node's own code is slow, too. As a dictionary, the response
 * shares one class with all others. Deleting a property turns the response into a dictionary.
 */
export function shareShape(res: ServerResponse): void {
  if (Object.getPrototypeOf(res) === res.constructor.prototype) return
  const socket = Object.getOwnPropertyDescriptor(res, 'socket')
  if (socket?.configurable && Reflect.deleteProperty(res, 'socket')) Object.defineProperty(res, 'socket', socket)
}
