import { sha256Hex } from '../platform/sha256.ts'
import type { Finding } from './warn.ts'

export const CALLERS_MAX = 1_000

/** Finds a shared scope with different callers: one caller could get the answer of another. */
export class SharedScope {
  /** The last caller of each operation, as a digest, because credentials are secrets. */
  readonly #callers = new Map<string, string>()

  get size(): number {
    return this.#callers.size
  }

  seen(route: string, id: string, credentials: string): Finding | null {
    const caller = sha256Hex(credentials)
    const before = this.#callers.get(id)
    this.#callers.delete(id)
    this.#callers.set(id, caller)
    if (this.#callers.size > CALLERS_MAX) this.#callers.delete(this.#callers.keys().next().value ?? '')
    if (before === undefined || before === caller) return null
    return {
      code: 'ONCE_SCOPE_SHARED',
      route,
      place: '',
      line: `${route} has the scope 'global' and got one key from two callers (Authorization or Cookie differ). The second caller may get the answer of the first. Set scope: (request) => the id of the authenticated caller`,
    }
  }

  clear(): void {
    this.#callers.clear()
  }
}
