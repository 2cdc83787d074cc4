import { expect, test } from 'vitest'
import type { SqliteStore } from '../../src/store/sqlite/sqlite.ts'
import type { SqlTx } from '../../src/store/sqlite/tx.ts'
import { storeContract, type StoreSubject } from '../../src/testing/contract/store-contract.ts'
import type { Lab } from './sqlite.ts'

/**
 * SQLite has one writer at a time and no server that ends transactions. A failed statement does not fail its
 * transaction.
 */
const UNASKED = new Set([
  'a running key tells the same request from a different one, and neither waits',
  'a refused duplicate sees everything that was committed before its claim',
  'a batch does not wait for a key that another transaction holds',
  'a sweep skips records that another transaction has locked',
  'inbox: a message that another transaction runs is busy, and the batch does not wait for it',
  'inbox: a message that runs elsewhere is not parked, and no position passes it',
  'inbox: behind a message that runs elsewhere, later messages of its aggregate are not parked',
  'inbox: a message that ran elsewhere is parked after its rollback',
  'inbox: a message that became a dead letter while it ran is not committed, and does not count as failed',
  'erasure: an operation whose transaction is open is not erased, and its transaction is named',
  'redrives: an import leaves out running messages, and reports them',
  'outbox: no relay takes an event while it is being cancelled, and a rollback restores it',
  'outbox: a cancellation waits for a concurrent one, and returns what became of the event',
  'a transaction with a failed statement is not committed, even if the handler ignored the error',
  'the server ends a transaction at its deadline, and frees its key',
])

/** The contract of a store, on SQLite. `over` puts another store before it. */
export function sqliteContract(lab: Lab, over: (store: SqliteStore) => SqliteStore = (store) => store): void {
  async function make(): Promise<StoreSubject<SqlTx>> {
    const store = over(await lab.store())
    await store.transaction(async (tx) => {
      await tx.query('create table poison (id integer primary key)', [])
      await tx.query('insert into poison (id) values (1)', [])
    })
    return {
      store,
      effect: async (tx, key) => void (await tx.query('insert into charge (key, amount) values ($1, 1)', [key])),
      effects: async (key) =>
        store.transaction(async (tx) => {
          const { rows } = await tx.query<{ n: number }>('select count(*) as n from charge where key = $1', [key])
          return rows[0]?.n ?? 0
        }),
      statement: (key) => ({ sql: 'insert into charge (key, amount) values ($1, 1)', values: [key] }),
      poison: () => ({ sql: 'insert into poison (id) values (1)', values: [] }),
      transaction: (work) => store.transaction(work),
      dropAnswers: () =>
        store.transaction(async (tx) => void (await tx.query('delete from effectively_once_answer', []))),
      close: async () => {},
    }
  }

  const cases = storeContract(make)
  const asked = cases.filter(({ name }) => !UNASKED.has(name))

  for (const { name, run } of asked) test(name, async () => expect(await run()).toBeUndefined())

  test('what it cannot be asked is just that', async () => {
    const skipped = new Set<string>()
    for (const { name, run } of cases) if (UNASKED.has(name) && (await run())) skipped.add(name)
    expect(skipped).toEqual(UNASKED)
  })
}
