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
