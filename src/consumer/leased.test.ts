import { describe, expect, it, vi } from 'vitest'
import { onceError, type OnceCode } from '../errors.ts'
import type { Signal } from '../observe/signal.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { SqlStore } from '../store/store.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'
import { effectivelyOnce } from '../once/once.ts'
import type { LeasedOperation } from '../operation/types.ts'

type Op = LeasedOperation<unknown, {}>

/** Codes that mean trouble when this consumer's own store raises them. */
const CODES: readonly OnceCode[] = [
  'ONCE_STORE_UNAVAILABLE',
  'ONCE_COMMIT_UNKNOWN',
  'ONCE_CONFLICT',
  'ONCE_CLOSED',
  'ONCE_LEASE_LOST',
]

/** Where the handler's own code throws. */
const PLACES: Readonly<Record<string, (op: Op, fail: () => never) => Promise<unknown>>> = {
  handler: async (_op, fail) => fail(),
  step: ({ step }, fail) => step('call', async () => fail()),
  'step.tx': ({ step }, fail) => step.tx('write', async () => fail()),
  commit: ({ commit }, fail) => commit(() => fail()),
}

async function consume(store: SqlStore<never>, handler: (op: Op) => Promise<unknown>) {
  const broker = memoryBroker()
  broker.publish({ id: 'm' })
  const troubles: unknown[] = []
  const observe = (signal: Signal): void => {
    if (signal.kind === 'troubled') troubles.push(signal.error)
  }
  const once = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, observe })
  const consumer = once.consumer('reader', { from: broker.source, lease: '5s', attempts: 2 }, {
    'step.made': (_event: unknown, op: Op) => handler(op),
  } as never)
  await consumer.start()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 5_000 })
  await consumer.stop()
  const letters = await once.deadLetters.list({ consumer: 'reader' })
  return { letters: letters.map(({ reason, attempts }) => [reason, attempts]), troubles }
}

describe.each(CODES)('a leased consumer and %s', (code) => {
  it.each(Object.keys(PLACES))('thrown by the code of the handler, in %s: the message is parked', async (place) => {
    const fail = (): never => {
      throw onceError(code, { detail: 'of another store' })
    }
    const { letters, troubles } = await consume(memoryStore() as never, (op) => PLACES[place]!(op, fail))
    expect([letters, troubles]).toEqual([[['failed', 2]], []])
  })

  const CALLS = ['claim', 'finishStep', 'open']
  it.each(CALLS)('raised by its own store, in %s: the message is tried again, and not counted', async (call) => {
    const store = memoryStore()
    let failures = 0
    const failing = <T extends object>(part: T): T =>
      new Proxy(part, {
        get(target, name) {
          const member: unknown = Reflect.get(target, name, target)
          if (typeof member !== 'function') return member
          if (name !== call || failures > 2) return (member as () => unknown).bind(target)
          return async () => {
            failures++
            throw onceError(code)
          }
        },
      })
    const flawed = failing(Object.create(store, { leases: { value: failing(store.leases) } }) as typeof store)
    const { letters } = await consume(flawed as never, async (op) => {
      await op.step('call', async () => 1)
      return op.commit(() => 1)
    })
    expect([letters, failures]).toEqual([[], 3])
  })
})
