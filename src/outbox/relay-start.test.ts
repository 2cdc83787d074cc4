import { describe, expect, test } from 'vitest'
import { effectivelyOnce } from '../index.ts'
import { inProcessSink } from '../sink/in-process.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { MemoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { SHARDS } from '../limits.ts'

const LEASE_MS = 500
const sink = inProcessSink(() => undefined, { name: 'sink' })

/** A store whose relay is counted, and may be told to fail. */
function watched(wrong: (outbox: Outbox) => Partial<Outbox> = () => ({})) {
  const memory = memoryStore()
  const calls: Record<string, number> = {}
  const outbox = memory.outbox
  const counted = Object.fromEntries(
    Object.entries({ ...outbox, ...wrong(outbox) }).map(([name, call]) => [
      name,
      (...params: unknown[]) => {
        calls[name] = (calls[name] ?? 0) + 1
        return (call as (...of: unknown[]) => unknown)(...params)
      },
    ]),
  ) as unknown as Outbox
  const store: MemoryStore = { ...memory, outbox: counted }
  return { once: effectivelyOnce({ namespace: 'relay', store, sweep: false }), calls, outbox }
}

const pass = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe('a relay that starts', () => {
  test('and fails leaves nothing behind: no heartbeat keeps shards from the others', async () => {
    const { once, calls, outbox } = watched(() => ({ lease: () => Promise.reject(new Error('cut')) }))
    await expect(once.relay({ to: sink, lease: `${LEASE_MS}ms` }).start()).rejects.toThrow('cut')
    const beats = calls['beat']
    await pass(LEASE_MS)
    expect(calls['beat']).toBe(beats)
    const other = { destination: 'sink', relay: '00000000-0000-4000-8000-000000000001', leaseMs: LEASE_MS, leases: [] }
    expect(await outbox.beat(other)).toMatchObject({ relays: 1, free: SHARDS })
  })

  test('and gets no shard does not ask without end', async () => {
    const { once, calls, outbox } = watched()
    await outbox.open({ destination: 'sink' })
    await outbox.lease({ destination: 'sink', relay: 'other', leaseMs: 60_000, limit: SHARDS })
    const relay = once.relay({ to: sink, lease: `${LEASE_MS}ms` })
    await relay.start()
    await pass(LEASE_MS / 2)
    await relay.stop()
    expect(calls['read']).toBeLessThan(20)
  })
})
