import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { redisStore } from '../../src/entry/redis-store.ts'
import { effectivelyOnce, final, type Once, type RecordedStep } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { describeClient, describeEmbedded } from '../support/stores.ts'

type AnyOnce = Once<never, {}>
const SINCE = new Date(Date.now() - 60_000)

async function all(steps: AsyncIterable<RecordedStep>): Promise<RecordedStep[]> {
  const found: RecordedStep[] = []
  for await (const step of steps) found.push(step)
  return found
}

function cases(open: (namespace: string) => AnyOnce): void {
  it('gives the recorded steps of one name, with results, in the order of the ids', async () => {
    const once = open('found')
    const ids: string[] = []
    for (let n = 0; n < 7; n++) {
      await once.run({ scope: 's', key: `k${n}`, input: n, lease: '5s', label: `order ${n}` }, async (op) => {
        ids.push(op.id)
        await op.step('mail', async () => 'sent')
        const paid = await op.step('pay', async () => ({ charge: `c${n}` }))
        return op.commit(async () => paid)
      })
    }
    const found = await all(once.operations.steps({ name: 'pay', since: SINCE }))
    expect(found.map(({ id }) => id)).toEqual(ids.toSorted())
    expect(found.find(({ id }) => id === ids[3])).toEqual({
      id: ids[3],
      name: 'pay',
      state: 'done',
      result: { charge: 'c3' },
      route: expect.any(String),
      label: 'order 3',
      startedAt: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    expect(Math.abs(Date.parse(found[0]!.startedAt) - Date.now())).toBeLessThan(60_000)
    const read = async (more: object): Promise<string[]> =>
      (await all(once.operations.steps({ name: 'pay', since: SINCE, ...more }))).map(({ id }) => id)
    expect(await read({ after: found[4]!.id })).toEqual(ids.toSorted().slice(5))
    expect(await read({ operation: ids[2] })).toEqual([ids[2]])
    expect(await read({ operation: { scope: 's', key: 'k5' } })).toEqual([ids[5]])
    const none = [{ since: new Date(Date.now() + 60_000) }, { until: SINCE }, { name: 'wire' }]
    for (const more of none) expect(await read(more)).toEqual([])
    const another = open('another').operations
    expect(await all(another.steps({ name: 'pay', since: SINCE }))).toEqual([])
  })

  it('shows a call whose outcome is unknown, and the undo of a step', async () => {
    const once = open('doubt')
    const wire = { scope: 's', key: 'wire', input: 1, lease: '5s' } as const
    const down = async (): Promise<never> => {
      throw new Error('down')
    }
    await expect(once.run(wire, (op) => op.step('wire', down, { keyed: false }))).rejects.toThrow('down')
    const [open_] = await all(once.operations.steps({ name: 'wire', since: SINCE }))
    expect(open_).toMatchObject({ state: 'started', result: null })
    const undone = once.run({ ...wire, key: 'undone' }, async (op) => {
      await op.step('pay', async () => 'c1', { undo: async () => 'refunded c1' })
      throw final({ status: 409, body: 'sold out' })
    })
    await expect(undone).rejects.toMatchObject({ status: 409 })
    const [step] = await all(once.operations.steps({ name: 'pay', since: SINCE }))
    expect(step).toMatchObject({ state: 'done', result: 'c1', undone: 'refunded c1' })
  })

  it('reads many steps page by page, each once', { timeout: 60_000 }, async () => {
    const once = open('many')
    const many = 620
    for (let n = 0; n < many; n += 20) {
      const run = (_: unknown, i: number): Promise<unknown> =>
        once.run({ scope: 's', key: `k${n + i}`, input: 1, lease: '30s' }, async (op) => {
          const paid = await op.step('pay', async () => ({ n: n + i, pad: 'x'.repeat(20_000) }))
          return op.commit(async () => paid.n)
        })
      await Promise.all(Array.from({ length: 20 }, run))
    }
    const seen = await all(once.operations.steps({ name: 'pay', since: SINCE }))
    expect(seen.map(({ id }) => id)).toEqual(seen.map(({ id }) => id).toSorted())
    const numbers = seen.map(({ result }) => (result as { n: number }).n).toSorted((a, b) => a - b)
    expect(numbers).toEqual(Array.from({ length: many }, (_, n) => n))
  })

  it('refuses wrong options at the call', () => {
    const { operations } = open('wrong')
    const steps = (options: object) => () => operations.steps(options as never)
    const since = SINCE
    expect(steps({ since })).toThrow('name must be the name of a step')
    expect(steps({ name: 'eo:refusal', since })).toThrow('name must be the name of a step')
    expect(steps({ name: 'pay' })).toThrow('since must be a Date')
    expect(steps({ name: 'pay', since, until: 'today' })).toThrow('until must be a Date')
    expect(steps({ name: 'pay', since, after: 'k' })).toThrow('after must be the id of an operation')
    expect(steps({ name: 'pay', since, limit: 1 })).toThrow('limit')
  })
}

const open = (store: object) => (namespace: string) =>
  effectivelyOnce({ namespace, store: store as never, guard: 'off', sweep: false }) as AnyOnce

describe('recorded steps, in memory', () => {
  const store = memoryStore()
  cases((namespace) => open(store)(namespace))
})
describeClient('recorded steps', 'pg', (place) => cases((namespace) => place.once({ namespace }) as AnyOnce))
describeEmbedded('recorded steps', (place) => cases((namespace) => place.once({ namespace }) as AnyOnce), 'SQLite')

it('the Redis store refuses them at the call', async () => {
  const client = new Redis({ lazyConnect: true })
  const once = open(redisStore(client))('shop')
  expect(() => once.operations.steps({ name: 'pay', since: SINCE })).toThrow(
    expect.objectContaining({
      code: 'ONCE_UNSUPPORTED',
      message: expect.stringContaining('The redis store cannot search for recorded steps'),
    }),
  )
  await once.close()
  client.disconnect()
})
