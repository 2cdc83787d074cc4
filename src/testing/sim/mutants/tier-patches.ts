import type { Patch } from './patches.ts'

const FOUND_WITH_A_CACHE: readonly Patch[] = [
  {
    of: 'T1',
    name: 'shares an answer before its commit',
    file: 'src/operation/atomic.ts',
    find: '    const ending = await (span ?',
    replace: `    const { id, fingerprint, fingerprintVersion } = claim
    core.shared?.set(id, { fingerprint, fingerprintVersion, answer, life: claimed.life, until: request.at + claim.replayForMs }, request)
    const ending = await (span ?`,
  },
  {
    of: 'T2',
    name: 'trusts the clock of the cache',
    file: 'src/tier/shared-answers.ts',
    find: 'return until > this.#parts.clock.now() ?',
    replace: 'return until > -Infinity ?',
  },
  {
    of: 'T2',
    name: 'reports an erasure that the cache has not confirmed',
    file: 'src/store/answer-cache.ts',
    find: 'if (!(await cache.remove(ids))) await cache.renew()',
    replace: 'await cache.remove(ids)',
  },
  {
    of: 'T3',
    name: 'never reads the epoch again',
    file: 'src/tier/epoch.ts',
    find: 'const age = known ? this.#clock.now() - known.sentAt : Infinity',
    replace: 'const age = known ? 0 : Infinity',
  },
  {
    of: 'T3',
    name: 'does not wait until everybody knows a new epoch',
    file: 'src/tier/epoch.ts',
    find: 'if (known.no > 0 && age < EPOCH_SETTLES_MS)',
    replace: 'if (known.no < 0)',
  },
  {
    of: 'I4',
    name: 'refuses because of what the cache holds',
    file: 'src/operation/execute.ts',
    find: '  if (entry?.fingerprint !== fingerprint || entry.fingerprintVersion !== fingerprintVersion) return null\n  core.cache.set',
    replace: `  if (!entry) return null
  if (entry.fingerprint !== fingerprint) throw onceError('ONCE_MISMATCH')
  core.cache.set`,
  },
  {
    of: 'I4',
    name: 'answers another input from the cache',
    file: 'src/operation/execute.ts',
    find: '  if (entry?.fingerprint !== fingerprint || entry.fingerprintVersion !== fingerprintVersion) return null\n  core.cache.set',
    replace: `  if (!entry) return null
  core.cache.set`,
  },
]

/** Mutants of the tier's own code, in worlds whose processes share a cache. */
export const TIER_PATCHES: readonly Patch[] = FOUND_WITH_A_CACHE.map((patch) => ({ ...patch, tier: true }))
