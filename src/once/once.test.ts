import { describe, expect, it } from 'vitest'
import { event } from '../outbox/event.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { effectivelyOnce } from './once.ts'
import type { Signal } from '../observe/signal.ts'
import type { OpOf } from './types.ts'

function make(observe: (signal: Signal) => unknown = () => {}): ReturnType<typeof effectivelyOnce> {
  return effectivelyOnce({ namespace: 'test', store: memoryStore(), guard: 'off', sweep: false, observe })
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

async function unhandledDuring(work: () => Promise<void>): Promise<unknown[]> {
  const unhandled: unknown[] = []
  const listeners = process.rawListeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', (error) => unhandled.push(error))
  await work()
  await pause(10)
  process.removeAllListeners('unhandledRejection')
  for (const listener of listeners) process.on('unhandledRejection', listener as () => void)
  return unhandled
}

const operation = { scope: 'u', key: 'k', input: 1 }

describe('close', () => {
  it('lets what runs end, and refuses what comes after', async () => {
    const once = make()
    let go: () => void = () => {}
    const gate = new Promise<void>((resolve) => (go = resolve))
    const running = once.run(operation, () => gate.then(() => 'done'))
    let closed = false
    const closing = once.close().then(() => (closed = true))
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(closed).toBe(false)
    await expect(once.run({ ...operation, key: 'late' }, async () => 1)).rejects.toThrow('ONCE_CLOSED')
    go()
    expect(await running).toBe('done')
    await closing
    await once.close()
  })
})

describe('the catalogue', () => {
  it.each(['', 'x'.repeat(256), 'a\u0000', '\ud83d'])('refuses a type that no consumer could read: %j', (type) => {
    const events = { [type]: event<{ id: string }>(({ id }) => id) }
    expect(() => effectivelyOnce({ namespace: 'test', store: memoryStore(), events })).toThrow('ONCE_OPTION_INVALID')
  })
})

describe('join', () => {
  it('is named where it is given a lease', async () => {
    const leased = { ...operation, lease: '5s' } as never
    await expect(
      make()
        .join({})
        .run(leased, async () => 1),
    ).rejects.toThrow('join()')
  })
})

describe('observe', () => {
  it('hears of every operation, by a short hash and never by its key', async () => {
    const signals: Signal[] = []
    const once = make((signal) => signals.push(signal))
    await once.run({ ...operation, key: 'a secret key' }, async () => 'done')
    await once.run({ ...operation, key: 'a secret key' }, async () => 'done')
    await once.run({ ...operation, key: 'a secret key', input: 2 }, async () => 'done').catch(() => {})
    await once.run({ ...operation, key: 'breaks' }, () => Promise.reject(new Error('broken'))).catch(() => {})
    expect(signals.map(({ kind }) => kind)).toEqual(['completed', 'replayed', 'rejected', 'released'])
    expect(JSON.stringify(signals)).not.toContain('secret')
    expect(signals[0]).toMatchObject({ id: expect.stringMatching(/^[0-9a-f]{8}$/), attempt: 1 })
  })

  it('cannot fail an operation by throwing', async () => {
    const once = make(() => {
      throw new Error('the metrics are down')
    })
    expect(await once.run(operation, async () => 'done')).toBe('done')
  })

  it('cannot end the process by a promise that rejects', async () => {
    const unhandled = await unhandledDuring(async () => {
      const once = make(() => Promise.reject(new Error('the metrics are down')))
      expect(await once.run(operation, async () => 'done')).toBe('done')
    })
    expect(unhandled).toEqual([])
  })
})

describe('publish that nobody awaits', () => {
  const late = (deadline: '20ms' | '10s', nested: boolean): Promise<unknown[]> => {
    const store = memoryStore()
    const events = { charged: event<{ id: number }>(({ id }) => String(id)) }
    const once = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, events, deadline })
    return unhandledDuring(async () => {
      const handler = async ({ publish }: OpOf<typeof once>): Promise<void> => {
        const publishing = pause(60).then(() => void publish('charged', { id: 1 }))
        if (deadline === '20ms') await publishing
      }
      const outer = nested ? () => once.run({ ...operation, key: 'inner' }, handler) : handler
      await once.run(operation, outer).catch((error: unknown) => expect(error).toMatchObject({ code: 'ONCE_DEADLINE' }))
      await pause(80)
    })
  }

  it.each([false, true])('after the deadline ends no process: nothing was committed (nested: %s)', async (nested) => {
    expect(await late('20ms', nested)).toEqual([])
  })

  it('after the commit is not passed over: the event is lost', async () => {
    expect(await late('10s', false)).toMatchObject([{ code: 'ONCE_TX_CLOSED' }])
  })
})

describe('answers', () => {
  it('are what JSON makes of them, for the first caller too', async () => {
    const once = make()
    const value = await once.run(operation, async () => ({ at: new Date(0), none: undefined, list: [undefined] }))
    expect(value).toEqual({ at: '1970-01-01T00:00:00.000Z', list: [null] })
    expect(await once.run({ ...operation, key: 'nothing' }, async () => {})).toBeUndefined()
    expect(await once.run({ ...operation, key: 'nothing' }, async () => {})).toBeUndefined()
  })

  it('do not depend on who changes the object afterwards', async () => {
    const once = make()
    const first = await once.run(operation, async () => ({ n: 1 }))
    first.n = 2
    expect(await once.run(operation, async () => ({ n: 3 }))).toEqual({ n: 1 })
  })
})
