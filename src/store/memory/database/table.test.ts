import { expect, it } from 'vitest'
import { MemoryDatabase } from './database.ts'
import { Table } from './table.ts'

it('a row that another transaction has not committed is not seen, and nobody waits for it', async () => {
  const database = new MemoryDatabase()
  const table = new Table<{ n: number }>('t')
  const [writer, reader] = [database.begin({ interactive: true }), database.begin({ interactive: true })]
  await table.insert('k', { n: 1 }, writer)
  const locked = table.lock('k', reader, 'update')
  const soon = new Promise((resolve) => setTimeout(resolve, 50, 'waits'))
  expect(await Promise.race([locked, soon])).toBeUndefined()
})
