import { afterEach, describe, expect, it, vi } from 'vitest'
import { createOnce } from '../once/once.ts'
import { createEnclosingContext, type Enclosing } from '../operation/enclosing.ts'
import { systemParts } from '../operation/parts.ts'
import { systemClock } from '../platform/clock.ts'
import { sqliteStore } from '../store/sqlite/sqlite.ts'
import type { Session, Watch } from '../store/store.ts'
import { createGuard } from './create-guard.ts'

const COMPLETE = { fate: 'complete', answer: { status: 200 } } as const

describe('when there is a guard', () => {
  afterEach(() => vi.unstubAllEnvs())
  it.each([
    ['production', undefined, false],
    ['production', 'warn', true],
    ['development', undefined, true],
    ['test', 'off', false],
  ] as const)('NODE_ENV=%s and guard: %s', async (environment, guard, expected) => {
    vi.stubEnv('NODE_ENV', environment)
    const store = sqliteStore({ file: ':memory:' })
    const once = createOnce({ namespace: 'shop', store, sweep: false, ...(guard && { guard }) }, systemParts)
    expect(once.core.guard !== null).toBe(expected)
    await once.close()
  })
})

describe('a guard on any store', () => {
  const enclosing = createEnclosingContext()
  let watchers = 0
  let call: Parameters<Watch['bypass']>[0] = () => {}
  const watch: Watch = {
    bypass: (callback) => {
      watchers++
      call = callback
      return () => {
        watchers--
      }
    },
  }

  function guardOf(mode: 'warn' | 'throw', written?: () => Promise<number | null>) {
    const told: string[] = []
    const guard = createGuard({
      mode,
      store: { name: 'any', watch },
      clock: systemClock,
      observe: (signal) => signal.kind === 'guard' && told.push(signal.code),
      enclosing,
    })
    const savepoint = async () => ({ release: async () => {}, rollback: async () => {} })
    const session = { savepoint, ...(written && { written }) } as unknown as Session<unknown>
    const inside = <R>(work: () => R): R =>
      enclosing.run({ id: 'a', route: 'charge', session } as unknown as Enclosing, work)
    return { guard, session, told, inside, watch: () => guard.watch({ route: 'charge', claim: { id: 'a' } }, session) }
  }

  it('only warns where rows cannot be counted', async () => {
    const { guard, told, inside, watch } = guardOf('throw')
    const watched = watch()
    await watched.started
    inside(() => call({ words: 'insert into charges', starved: false, total: 1 }))
    await watched.ended(COMPLETE, 0)
    watched.stop()
    expect(told).toEqual(['ONCE_TX_BYPASSED'])
    guard.stop()
  })

  it('throws the first of many, and warns of the others', async () => {
    const { guard, told, inside, watch } = guardOf('throw', async () => 5)
    const watched = watch()
    await watched.started
    for (let i = 0; i < 1_000; i++) inside(() => call({ words: `insert into charge_${i}`, starved: false, total: 1 }))
    await expect(watched.ended(COMPLETE, 1)).rejects.toMatchObject({
      message: expect.stringContaining('"insert into charge_0"'),
    })
    expect(told).toHaveLength(1)
    watched.stop()
    // A loop cannot fill the memory with its places.
    expect(told).toHaveLength(50)
    guard.stop()
  })

  it('lets go of everything when it stops', async () => {
    const { guard, told, inside, watch } = guardOf('warn', async () => 0)
    expect(watchers).toBe(1)
    const watched = watch()
    await watched.started
    await watched.ended(COMPLETE, 1)
    watched.stop()
    inside(() => call({ words: 'select 1', starved: true, total: 1 }))
    guard.stop()
    guard.stop()
    expect({ watchers, told }).toEqual({ watchers: 0, told: [] })
  })
})
