import { describe, expect, it } from 'vitest'
import { CACHE_BYTES_MAX, CACHE_ENTRIES_MAX } from '../limits.ts'
import { ReplayCache } from './replay-cache.ts'

function make(): { cache: ReplayCache; pass(ms: number): void } {
  let now = 0
  const cache = new ReplayCache({ now: () => now, after: () => () => {} })
  return { cache, pass: (ms) => (now += ms) }
}

function record(until: number, bytes = 1, status = 200): Parameters<ReplayCache['set']>[1] {
  return {
    until,
    life: '1',
    fingerprint: 'f',
    fingerprintVersion: 1,
    answer: { status, headers: [], body: new Uint8Array(bytes), kept: true },
  }
}

function kept(cache: ReplayCache, count: number): number {
  return Array.from({ length: count }, (_, i) => cache.get(`k${i}`)).filter(Boolean).length
}

describe('the replay cache', () => {
  it('forgets at the end of the record’s life, on the monotonic clock', () => {
    const { cache, pass } = make()
    cache.set('a', record(100), { at: 1 })
    pass(99)
    expect(cache.get('a')?.answer.status).toBe(200)
    pass(1)
    expect(cache.get('a')).toBeUndefined()
  })

  it('gives the newer of two records', () => {
    const { cache } = make()
    cache.set('a', record(100, 1, 200), { at: 1 })
    for (let i = 0; i < CACHE_ENTRIES_MAX / 2; i++) cache.set(`k${i}`, record(100), { at: 1 })
    cache.set('a', record(100, 1, 201), { at: 1 })
    expect(cache.get('a')?.answer.status).toBe(201)
  })

  it('keeps a bounded number of entries, and at least the newest half of them', () => {
    const { cache } = make()
    const count = CACHE_ENTRIES_MAX * 3
    for (let i = 0; i < count; i++) cache.set(`k${i}`, record(1_000), { at: 1 })
    expect(kept(cache, count)).toBeLessThanOrEqual(CACHE_ENTRIES_MAX)
    for (let i = count - CACHE_ENTRIES_MAX / 2; i < count; i++) expect(cache.get(`k${i}`)).toBeDefined()
    cache.clear()
    expect(kept(cache, count)).toBe(0)
  })

  it('forgets what a call brings that began before everything was cleared', () => {
    const { cache, pass } = make()
    pass(5)
    cache.clear()
    cache.set('a', record(100), { at: 5 })
    expect(cache.get('a')).toBeUndefined()
    cache.set('a', record(100), { at: 6 })
    expect(cache.get('a')).toBeDefined()
  })

  it('keeps a bounded number of bytes, and nothing that would take too many of them', () => {
    const { cache } = make()
    const large = CACHE_BYTES_MAX / 16 - 1_000
    for (let i = 0; i < 40; i++) cache.set(`k${i}`, record(1_000, large), { at: 1 })
    expect(kept(cache, 40)).toBeLessThanOrEqual(16)
    expect(kept(cache, 40)).toBeGreaterThan(7)
    cache.set('huge', record(1_000, CACHE_BYTES_MAX), { at: 1 })
    expect(cache.get('huge')).toBeUndefined()
  })
})
