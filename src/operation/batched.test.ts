import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import type { BatchSession, Claim, SqlStore } from '../store/store.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { effectivelyOnce } from '../once/once.ts'

/** A store whose server has room for so many locks and no more. */
function crowded(room: number): { store: SqlStore<unknown>; sizes: number[] } {
  const sizes: number[] = []
  const inner = memoryStore() as SqlStore<unknown>
  const session: BatchSession = {
    effects: async (statements) => ({ kind: 'done', rows: statements.map(() => []) }),
    complete: async () => 'committed',
    rollback: async () => {},
  }
  const open = async ({ claims }: { readonly claims: readonly Claim[] }): Promise<never> => {
    sizes.push(claims.length)
    if (claims.length > room) throw Object.assign(new Error('out of shared memory'), { crowded: true })
    const won = new Map(claims.map(({ id }) => [id, { token: '1', life: '1', attempt: 1, answerDay: '2030-01-01' }]))
    return { session, won } as never
  }
  const batches = {
    limit: async () => 256,
    isCrowded: (error: unknown) => (error as { crowded?: boolean }).crowded === true,
    open,
  }
  return {
    store: new Proxy(inner, {
      get: (target, name) => (name === 'batches' ? batches : Reflect.get(target, name, target)),
    }),
    sizes,
  }
}

describe('batches on a crowded server', () => {
  it('halve until they fit, and stay small', async () => {
    const { store, sizes } = crowded(10)
    const troubles: string[] = []
    const once = effectivelyOnce({
      namespace: 'test',
      store,
      guard: 'off',
      sweep: false,
      observe: (signal) => signal.kind === 'troubled' && troubles.push(signal.task),
    })
    const charge = once.batched({ statement: () => ({ sql: '', values: [] }), respond: () => 'ok' })
    const all = (prefix: string): Promise<unknown[]> =>
      Promise.all(Array.from({ length: 64 }, (_, i) => charge({ scope: 's', key: `${prefix}${i}`, input: i })))
    expect(new Set(await all('a'))).toEqual(new Set(['ok']))
    expect(Math.max(...sizes)).toBe(64)
    expect(troubles).toContain('batch')
    sizes.length = 0
    expect(new Set(await all('b'))).toEqual(new Set(['ok']))
    expect(Math.max(...sizes)).toBeLessThanOrEqual(10)
    await once.close()
  })

  it('give one request its error when even it does not fit', async () => {
    const { store } = crowded(0)
    const once = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false })
    const charge = once.batched({ statement: () => ({ sql: '', values: [] }), respond: () => 'ok' })
    await expect(charge({ scope: 's', key: 'k', input: 1 })).rejects.toThrow('out of shared memory')
    await once.close()
  })
})

it('each request of a batch is answered in the context of its own caller', async () => {
  const caller = new AsyncLocalStorage<number>()
  const once = effectivelyOnce({ namespace: 'test', store: memoryStore(), guard: 'off', sweep: false })
  const charge = once.batched<number, unknown>({
    statement: (i) => ({ sql: 'insert into charges', values: [{ i }] }),
    respond: async () => {
      await Promise.resolve()
      return caller.getStore()
    },
  })
  const callers = Array.from({ length: 16 }, (_, i) => i)
  const all = callers.map((i) => caller.run(i, () => charge({ scope: 's', key: `k${i}`, input: i })))
  expect(await Promise.all(all)).toEqual(callers)
  await once.close()
})
