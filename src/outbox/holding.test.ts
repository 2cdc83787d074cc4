import { describe, expect, it } from 'vitest'
import { isStorable } from '../platform/storable.ts'
import type { StoredEvent } from '../store/outbox.ts'
import { failed } from './holding.ts'

const stored: StoredEvent = {
  shard: 1,
  seq: 1,
  segment: 1,
  id: 'e',
  aggregateType: 'a',
  aggregateId: 'a',
  type: 'a.b',
  payload: '{}',
  headers: '{}',
  at: 0,
}

describe('an event that failed', () => {
  it('is held with its reason, whatever the sink says', () => {
    const parts = { attempts: 1, onFailure: 'park', random: { next: () => 0.5, uuid: () => 'u' } } as const
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    const odd = Object.defineProperty(new Error('a'), 'message', { value: Symbol('b') })
    for (const error of [new Error('a\0\ud83d'), odd, proxy, Object.create(null), undefined, 5n, 'x'.repeat(9_999)]) {
      const { state, reason } = failed(parts, stored, { error, retryable: false }, 1)
      expect(state).toBe('parked')
      expect(isStorable(String(reason)) && String(reason).length <= 500).toBe(true)
    }
    expect(failed(parts, stored, { error: new TypeError('no'), retryable: false }, 1).reason).toBe('TypeError: no')
  })
})
