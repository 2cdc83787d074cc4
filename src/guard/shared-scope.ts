import { sha256Hex } from '../platform/sha256.ts'
import type { Finding } from './warn.ts'

export const CALLERS_MAX = 1_000

/** Notices a scope that everybody shares while callers are not the same: one would get the answer of another. */
export class SharedScope {
  /** The last caller of each operation. Callers show secrets, so only a digest is kept. */
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
