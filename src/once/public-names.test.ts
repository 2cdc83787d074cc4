import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink, type Runner, type Worker } from '../index.ts'
import type { Signal } from '../observe/signal.ts'
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
    expect(await once.destinations.list()).toEqual(['ledger', 'mail'])
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

describe('the age that operations are listed by', () => {
  it.each(['soon', '3651d'])('%s is refused, and named', async (olderThan) => {
    const listed = once.operations.list({ olderThan: olderThan as '1d' })
    await expect(listed).rejects.toThrow(/ONCE_OPTION_INVALID.*olderThan must be/)
    expect(await once.operations.list({ olderThan: '3650d' })).toEqual([])
  })
})

it('an unknown option is named together with the call that it was given to', async () => {
  const options = { statement: () => ({ sql: '', values: [] }), respond: () => 1, maximum: 1 }
  expect(() => once.batched(options)).toThrow(/batched\(\).*maximum|maximum.*batched\(\)/)
})

it.each([undefined, '30s'] as const)('an operation tells how long it took, with the lease %s', async (lease) => {
  const took: number[] = []
  const observe = (signal: Signal): void => void (signal.kind === 'completed' && took.push(signal.durationMs))
  const watched = effectivelyOnce({ namespace: 'watched', store: memoryStore(), observe, guard: 'off', sweep: false })
  const begun = performance.now()
  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 30))
  const operation = { scope: 'a', key: 'k', input: 1 }
  if (lease) await watched.run({ ...operation, lease }, async ({ commit }) => pause().then(() => commit(async () => 1)))
  else await watched.run(operation, pause)
  expect(took).toHaveLength(1)
  expect(took[0]).toBeGreaterThan(25)
  expect(took[0]).toBeLessThanOrEqual(performance.now() - begun)
  await watched.close()
})
