import { expect, it } from 'vitest'
import { memoryStore } from '../store/memory/memory-store.ts'
import { effectivelyOnce } from '../index.ts'
import { instanceOf } from '../once/instance.ts'

it('a handle tells whose it is until its operation ends, and keeps nothing after', async () => {
  const once = effectivelyOnce({ namespace: 'handles', store: memoryStore(), guard: 'off', sweep: false })
  const { handles } = instanceOf(once).core
  const seen: object[] = []
  const noted = (tx: object): boolean => {
    seen.push(tx)
    return handles.has(tx)
  }
  expect(await once.run({ scope: 's', key: 'atomic', input: 1 }, async ({ tx }) => noted(tx))).toBe(true)
  const failed = once.run({ scope: 's', key: 'failed', input: 1 }, async ({ tx }) => {
    noted(tx)
    throw new Error('refused')
  })
  await expect(failed).rejects.toThrow('refused')
  await once.run({ scope: 's', key: 'leased', input: 1, lease: '10s' }, async ({ step, commit }) => {
    await step.tx('write', async ({ tx }) => void noted(tx))
    return commit(async ({ tx }) => noted(tx))
  })
  expect(seen).toHaveLength(4)
  expect(seen.filter((tx) => handles.has(tx))).toEqual([])
  await once.close()
})

it.each([
  ['a handle that cannot be made', 'no handle'],
  ['a transaction that cannot be nested in', 'ONCE_UNSUPPORTED'],
])('%s leaves no transaction open', async (_, told) => {
  const memory = memoryStore()
  let fails = true
  const unable = <S extends object>(session: S): S =>
    new Proxy(session, {
      get(of, name) {
        if (name === 'revocable' && fails && told === 'no handle') return fail
        const found: unknown = Reflect.get(of, name, of)
        return typeof found === 'function' ? found.bind(of) : found
      },
      has: (of, name) => Reflect.has(of, name) && !(name === 'savepoint' && fails && told !== 'no handle'),
    })
  const fail = (): never => {
    throw new Error('no handle')
  }
  const store: typeof memory = {
    ...memory,
    begin: async (params) => {
      const begun = await memory.begin(params)
      return { ...begun, session: unable(begun.session) }
    },
    open: async (params) => unable(await memory.open(params)),
  }
  const once = effectivelyOnce({ namespace: 'handles', store, guard: 'off', sweep: false })
  const atomic = (): Promise<string> => once.run({ scope: 's', key: 'atomic', input: 1 }, async () => 'done')
  const leased = (): Promise<string> =>
    once.run({ scope: 's', key: 'leased', input: 1, lease: '10s' }, async ({ commit }) => commit(async () => 'done'))
  const stepped = (): Promise<string> =>
    once.run({ scope: 's', key: 'stepped', input: 1, lease: '10s' }, async ({ step, commit }) => {
      await step.tx('write', async () => 'written')
      return commit(async () => 'done')
    })
  const nested = (): Promise<string> =>
    once.run({ scope: 's', key: 'outer', input: 1 }, async () =>
      once.run({ scope: 's', key: 'inner', input: 1 }, async () => 'done'),
    )
  const concerned = told === 'no handle' ? [atomic, leased, stepped, nested] : [stepped, nested]
  for (const run of concerned) await expect(run()).rejects.toThrow(told)
  expect(memory.database.open.size).toBe(0)
  fails = false
  for (const run of concerned) expect(await run()).toBe('done')
  await once.close()
})
