import { SOUND } from '../flaw.ts'
import type { Flaw } from '../process.ts'
import type { Mutant } from './mutant.ts'

/** Mutants of the shared cache and its server. */
export const TIER_MUTANTS: readonly Mutant[] = [
  cacheFlaw('T2', 'fills the cache whatever is there', (server, cache, process) => ({
    ...server,
    write: ({ key, entry, forMs }) => cache.overwrite(process, key, entry, forMs, false),
  })),

  cacheFlaw('T2', 'fills the cache over the nonce of another reader', (server, cache, process) => ({
    ...server,
    write: ({ key, entry, forMs }) => cache.overwrite(process, key, entry, forMs, true),
  })),

  cacheFlaw('T2', 'erases without a word to the cache', (server) => ({ ...server, drop: () => Promise.resolve() })),

  cacheFlaw('T3', 'takes the entries of an old snapshot for its own', (server, cache) => {
    cache.knowsItsHistory = false
    return server
  }),
]

function cacheFlaw(of: string, name: string, cache: Flaw['cache']): Mutant {
  return { name, of, flaw: { ...SOUND, cache }, tier: true }
}
