import { describe, expect, it } from 'vitest'
import { CACHE_BYTES_MAX, CACHE_ENTRIES_MAX } from '../limits.ts'
import { ReplayCache } from './replay-cache.ts'

function make(): { cache: ReplayCache; pass(ms: number): void } {
  let now = 0
  const cache = new ReplayCache({ now: () => now, after: () => () => {} })
  return { cache, pass: (ms) => (now += ms) }
}

function record(until: number, bytes = 1): Parameters<ReplayCache['set']>[1] {
  return {
    until,
    fingerprint: 'f',
    fingerprintVersion: 1,
    answer: { status: 200, headers: [], body: new Uint8Array(bytes), kept: true },
  }
}

describe('the replay cache', () => {
  it('forgets at the end of the record’s life, on the monotonic clock', () => {
    const { cache, pass } = make()
    cache.set('a', record(100))
    pass(99)
    expect(cache.get('a')?.answer.status).toBe(200)
    pass(1)
    expect(cache.get('a')).toBeUndefined()
    cache.set('b', record(100))
    expect(cache.get('b')).toBeUndefined()
  })

  it('keeps a bounded number of entries, the oldest go first', () => {
    const { cache } = make()
    for (let i = 0; i <= CACHE_ENTRIES_MAX; i++) cache.set(`k${i}`, record(1_000))
    expect(cache.get('k0')).toBeUndefined()
    expect(cache.get('k1')).toBeDefined()
    expect(cache.get(`k${CACHE_ENTRIES_MAX}`)).toBeDefined()
  })

  it('keeps a bounded number of bytes, and nothing that would take too many of them', () => {
    const { cache } = make()
    const large = CACHE_BYTES_MAX / 16 - 1_000
    for (let i = 0; i < 20; i++) cache.set(`k${i}`, record(1_000, large))
    const kept = Array.from({ length: 20 }, (_, i) => cache.get(`k${i}`)).filter(Boolean)
    expect(kept.length).toBeLessThanOrEqual(16)
    expect(kept.length).toBeGreaterThan(14)
    cache.set('huge', record(1_000, CACHE_BYTES_MAX))
    expect(cache.get('huge')).toBeUndefined()
    // replacing an entry gives its bytes back
    for (let i = 0; i < 100; i++) cache.set('same', record(1_000, large))
    expect(cache.get('k19')).toBeDefined()
  })
})
