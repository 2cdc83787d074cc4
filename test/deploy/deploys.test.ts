import { expect, inject, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { deploysUnderLoad } from './deploys.ts'

describePostgres('rolling deploys under load', (database) => {
  const { nats } = inject('servers')

  it.skipIf('missing' in nats)(
    'answer every request, once, and end in time: 2 rolls',
    { timeout: 600_000 },
    async () => {
      if ('missing' in nats) return
      const result = await deploysUnderLoad({ database: database.url, nats: nats.url, rolls: 2, seed: 1 })
      expect(result).toMatchObject({ '5xx': 0, lost: 0, twice: 0, late: 0, unanswered: 0, wrong: 0, replaced: 21 })
      expect(result.requests).toBeGreaterThan(100)
    },
  )
})
