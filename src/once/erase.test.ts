import { expect, it } from 'vitest'
import { memoryStore } from '../store/memory/memory-store.ts'
import { STATEMENTS } from '../store/memory/statements/index.ts'
import { effectivelyOnce } from './once.ts'

it('a retry is 410 even if its operation is erased between the record and the answer', async () => {
  const store = memoryStore({
    statements: {
      ...STATEMENTS,
      readAnswer(work, id, token) {
        const scope = work.database.records.seen(id, work.tx)?.scope ?? ''
        STATEMENTS.eraseRecords(work, { scope, id, after: null, limit: 1, dryRun: false })
        return STATEMENTS.readAnswer(work, id, token)
      },
    },
  })
  const instance = () => effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
  const operation = { scope: 'ann', key: 'k', input: 1 }
  expect(await instance().run(operation, async () => 'first')).toBe('first')
  const late = instance().run(operation, async () => 'again')
  await expect(late).rejects.toMatchObject({ code: 'ONCE_GONE' })
})

it('erases every operation whose record was held for a moment, however many there are', async () => {
  const store = memoryStore()
  const once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
  for (let n = 0; n < 1_500; n++) await once.run({ scope: 'ann', key: `k${n}`, input: 1 }, async () => n)
  // In the first pass another transaction holds all of them.
  const operations: typeof store.erasure.operations = async (params) => {
    if (params.id !== null) return store.erasure.operations(params)
    const part = await store.erasure.operations({ ...params, dryRun: true })
    return { ...part, erased: 0, ids: [], busy: part.ids }
  }
  const held = new Proxy(store, {
    get: (of, name) => (name === 'erasure' ? { ...store.erasure, operations } : Reflect.get(of, name, of)),
  })
  const eraser = effectivelyOnce({ namespace: 'shop', store: held, guard: 'off', sweep: false })
  expect(await eraser.erase({ scope: 'ann' })).toMatchObject({ operations: 1_500, finished: true })
})

it('refuses a dryRun that is no boolean', async () => {
  const once = effectivelyOnce({ namespace: 'shop', store: memoryStore(), guard: 'off', sweep: false })
  const erased = once.erase({ scope: 'ann', dryRun: 'no' as never })
  await expect(erased).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
})
