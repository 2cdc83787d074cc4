import { expect, test } from 'vitest'
import { INBOX_CASES } from '../../src/testing/contract/inbox.ts'
import type { StoreSubject } from '../../src/testing/contract/store-contract.ts'
import type { SqlTx } from '../../src/store/sqlite/tx.ts'
import { describeSqlite } from '../support/sqlite.ts'

describeSqlite('the inbox', (lab) => {
  for (const { name, unless, test: run } of INBOX_CASES) {
    test(name, async ({ skip }) => {
      const store = await lab.store()
      const subject: StoreSubject<SqlTx> = {
        store,
        effect: async (tx, key) => void (await tx.query('insert into charge (key, amount) values ($1, 1)', [key])),
        effects: async (key) =>
          store.transaction(async (tx) => {
            const { rows } = await tx.query<{ n: number }>('select count(*) as n from charge where key = $1', [key])
            return rows[0]?.n ?? 0
          }),
        close: async () => {},
      }
      const reason = unless?.(subject as StoreSubject<unknown>) ?? null
      if (reason !== null) skip(reason)
      await run(subject as StoreSubject<unknown>)
      expect(store.inbox).toBeDefined()
    })
  }
})
