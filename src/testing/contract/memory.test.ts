import { describe, test } from 'vitest'
import { memoryStore } from '../../store/memory/memory-store.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import { storeContract } from './store-contract.ts'
import type { StoreSubject } from './store-contract.ts'

async function make(): Promise<StoreSubject<MemoryTx>> {
  const store = memoryStore({ unique: { poison: ['id'] } })
  await store.schema.migrate()
  await store.transaction((tx) => tx.insert('poison', { id: 1 }))
  return {
    store,
    async effect(tx, key) {
      await tx.insert('effects', { key })
    },
    effects: (key) => Promise.resolve(store.rows('effects').filter((row) => row['key'] === key).length),
    statement: (key) => ({ sql: 'insert into effects', values: [{ key }] }),
    poison: () => ({ sql: 'insert into poison', values: [{ id: 1 }] }),
    async fail(tx) {
      await tx.insert('poison', { id: 1 }).catch(() => undefined)
    },
    transaction: (work) => store.transaction(work),
    async dropAnswers() {
      store.database.answers.slots.clear()
    },
    close: () => store.close(),
  }
}

describe('the contract, in memory', () => {
  for (const { name, run } of storeContract(make)) {
    test.concurrent(name, async ({ expect, skip }) => {
      const result = await run()
      if (result) skip(result.skipped)
      expect(result).toBeUndefined()
    })
  }
})
