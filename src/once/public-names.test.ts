import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink, type Runner, type Worker } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'

const events = { 'charge.created': event<{ id: number }>((charge) => String(charge.id)) }
const make = () => effectivelyOnce({ namespace: 'shop', store: memoryStore(), events, guard: 'off' })

let once: ReturnType<typeof make>
beforeEach(async () => {
  once = make()
  await once.migrate()
})
afterEach(() => once.close())

describe('the input of an operation', () => {
  const input = { amount: 500, to: ['ann'] }

  it('reaches the handler, with its type', async () => {
    const seen = await once.run({ scope: 'a', key: 'k', input }, async ({ input: given, tx }) => {
      expectTypeOf(given).toEqualTypeOf<{ amount: number; to: string[] }>()
      expect(given).toBe(input)
      expect(tx).toBeDefined()
      return given.amount
    })
    expect(seen).toBe(500)
  })

  it('reaches a leased handler, again after a failure', async () => {
    const operation = { scope: 'a', key: 'k', input, lease: '30s' } as const
    const failed = once.run(operation, async (op) => {
      expect(op.input).toBe(input)
      throw new Error('the provider is down')
    })
    await expect(failed).rejects.toThrow('the provider is down')
    const paid = await once.run(operation, async (op) => {
      expectTypeOf(op.input.amount).toBeNumber()
      await op.step('pay', async () => 'paid')
      return op.commit(async () => op.input.amount)
    })
    expect(paid).toBe(500)
  })

  it("stands beside a step's key, in the characters that the provider takes", async () => {
    const keys = await once.run({ scope: 'a', key: 'k', input, lease: '30s' }, async ({ step, commit }) => {
      const plain = await step('plain', async ({ key }) => key)
      const short = await step('short', async ({ key }) => key, { keyAlphabet: 'ABCDEFGHIJKLMNOP', keyLength: 40 })
      return commit(async () => [plain, short])
    })
    expect(keys[0]).toMatch(/^[0-9a-f]+$/)
    expect(keys[1]).toMatch(/^[A-P]+$/)
  })

  it('reaches nested operations, each its own', async () => {
    const both = await once.run({ scope: 'a', key: 'outer', input: 1 }, async (outer) => {
      const inner = await once.run({ scope: 'a', key: 'inner', input: 2 }, async (op) => op.input)
      return [outer.input, inner]
    })
    expect(both).toEqual([1, 2])
  })
})

describe('destinations', () => {
  async function sentTo(name: string): Promise<void> {
    await once.run({ scope: 'a', key: name, input: null }, async ({ publish }) => publish('charge.created', { id: 1 }))
    await once.relay({ to: inProcessSink(() => {}, { name }) }).drain()
  }

  it('are listed, and removed by their name', async () => {
    await sentTo('mail')
    await sentTo('ledger')
    expect([...(await once.destinations.list())].toSorted()).toEqual(['ledger', 'mail'])
    await once.destinations.remove('mail')
    expect(await once.destinations.list()).toEqual(['ledger'])
    await expect(once.destinations.remove(7 as never)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
  })

  it('are removed by the old name, too, for one minor version', async () => {
    await sentTo('mail')
    await once.forget({ destination: 'mail' })
    expect(await once.destinations.list()).toEqual([])
  })
})

describe('a consumer', () => {
  it('takes handlers that return anything, and is a runner', async () => {
    const seen: number[] = []
    const consumer = once.consumer(
      'receipts',
      { from: once.outbox },
      { 'charge.created': async ({ data }) => seen.push(data.id) },
    )
    expectTypeOf(consumer).toExtend<Runner>()
    expectTypeOf<Worker>().toEqualTypeOf<Runner>()
    await once.run({ scope: 'a', key: 'k', input: null }, async ({ publish }) => publish('charge.created', { id: 7 }))
    await consumer.drain()
    expect(seen).toEqual([7])
  })
})
