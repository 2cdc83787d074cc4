import { describe, expect, it, vi } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { sqliteStore } from '../entry/sqlite.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Store } from '../store/store.ts'

/** A registry that can be away, and forgets nothing. */
class Registry {
  away = false
  readonly asked: string[] = []

  async ask(what: string): Promise<void> {
    await Promise.resolve()
    this.asked.push(what)
    if (this.away) throw new Error('the registry is away')
  }
}

describe.each<[string, () => Store<unknown>]>([
  ['memory', () => memoryStore()],
  ['SQLite', () => sqliteStore({ file: ':memory:' })],
])('encode and decode, on %s', (_, storeOf) => {
  async function world(lease?: '5s') {
    const registry = new Registry()
    const events = {
      'scan.made': event<{ id: string; n: number }>(({ id }) => id, {
        contentType: 'application/x-scan',
        async encode({ id, n }) {
          await registry.ask('encode')
          return Buffer.from(`${id}:${n}`)
        },
        async decode(bytes, { type, headers }) {
          await registry.ask(`decode ${type} ${headers['schema'] ?? ''}`)
          const [id = '', n] = Buffer.from(bytes).toString().split(':')
          return { id, n: Number(n) }
        },
      }),
    }
    const once = effectivelyOnce({ namespace: 'scans', store: storeOf(), events, sweep: false, guard: 'off' })
    await once.migrate()
    let key = 0
    const publish = (n: number): Promise<unknown> =>
      once.run({ scope: 's', key: `key-${key++}`, input: n }, ({ publish: put }) =>
        put('scan.made', { id: 'a', n }, { headers: { schema: '7' } }),
      )
    const seen: unknown[] = []
    const options = { from: once.outbox, attempts: 2 }
    const consumer = lease
      ? once.consumer(
          'reader',
          { ...options, lease },
          {
            'scan.made': async ({ data }, { commit }) => commit(async () => void seen.push(data)),
          },
        )
      : once.consumer('reader', options, { 'scan.made': async ({ data }) => void seen.push(data) })
    return { once, registry, publish, consumer, seen }
  }

  it.each([undefined, '5s'] as const)('handlers get what was published (lease %s)', async (lease) => {
    const { once, registry, publish, consumer, seen } = await world(lease)
    await publish(1)
    expect(await consumer.drain()).toBe(1)
    expect(seen).toEqual([{ id: 'a', n: 1 }])
    expect(registry.asked).toEqual(['encode', 'decode scan.made 7'])
    await once.close()
  })

  it('an encode that fails fails the operation, and nothing is published', async () => {
    const { once, registry, publish, consumer, seen } = await world()
    registry.away = true
    await expect(publish(1)).rejects.toThrow(/the registry is away/)
    registry.away = false
    expect(await consumer.drain()).toBe(0)
    await publish(2)
    await consumer.drain()
    expect(seen).toEqual([{ id: 'a', n: 2 }])
    await once.close()
  })

  it('a decode that fails is tried again, then a dead letter with its reason, which a redrive runs', async () => {
    const { once, registry, publish, consumer, seen } = await world()
    await publish(1)
    registry.away = true
    await consumer.start()
    const letters = () => once.deadLetters.list({ consumer: 'reader' })
    await vi.waitFor(async () => expect(await letters()).toHaveLength(1), { timeout: 5_000 })
    const [letter] = await letters()
    expect(letter).toMatchObject({ reason: 'failed', attempts: 2 })
    expect(letter?.error).toMatch(/Undecodable: 'scan.made' could not be decoded: the registry is away/)
    registry.away = false
    await once.redrive.run({ consumer: 'reader' }, { by: 'test', why: 'the registry is back' })
    await vi.waitFor(() => expect(seen).toEqual([{ id: 'a', n: 1 }]), { timeout: 8_000 })
    await once.close()
  })
})
