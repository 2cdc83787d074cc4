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
