import { expect, it } from 'vitest'
import { inspectPostgres } from './inspect-postgres.ts'
import type { Opened } from './open-store.ts'

it('answers of days without a partition are counted', async () => {
  const query = async (sql: string): Promise<unknown[]> => (sql.includes('.answer_default') ? [{ n: 3 }] : [])
  const { server } = await inspectPostgres({ query } as unknown as Opened, '"shop"')
  expect(server?.strays).toBe(3)
})
