import type { ServerResponse } from 'node:http'

/**
 * Express replaces the prototype of every response. V8 then gives each response a hidden class of its own after the next
 * new property: a property costs microseconds, and so does every use by code that has never met this class. Node's and
 * Express's own code pays, too. As a dictionary, the response shares one class with all others, and costs a fifth.
 * Deleting a property makes it one. Responses with the prototype of their class share a class anyway.
 */
export function shareShape(res: ServerResponse): void {
  if (Object.getPrototypeOf(res) === res.constructor.prototype) return
  const socket = Object.getOwnPropertyDescriptor(res, 'socket')
  if (socket?.configurable && Reflect.deleteProperty(res, 'socket')) Object.defineProperty(res, 'socket', socket)
}
