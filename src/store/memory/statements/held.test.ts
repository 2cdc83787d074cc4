import { expect, it } from 'vitest'
import { MemoryDatabase } from '../database/database.ts'
import { heldKey } from '../database/rows.ts'
import { settleHeld } from './held.ts'

it('a sent event is removed after a transaction that changes it, as in PostgreSQL', async () => {
  const database = new MemoryDatabase()
  const key = heldKey('d', 0, 1)
  const [setup, other, settling] = [0, 1, 2].map(() => database.begin({ interactive: true }))
  await database.held.insert(key, {} as never, setup!)
  setup!.commit()
  await database.held.lock(key, other!, 'update')
  const nothing = { changed: [], kept: [], park: [], touched: [] }
  const work = { database, tx: settling!, pause: () => undefined }
  let isSettled = false
  const settled = settleHeld(work, { destination: 'd', sent: [{ shard: 0, seq: 1 }], ...nothing }).then(() => {
    isSettled = true
  })
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(isSettled).toBe(false)
  other!.rollback()
  await settled
  settling!.commit()
  expect(database.held.rows(null)).toEqual([])
})
