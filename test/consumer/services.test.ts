import { expect, it } from 'vitest'
import { servicesUnderKills } from '../namespaces/chaos.ts'
import { describePostgres } from '../support/postgres.ts'

describePostgres('two services with equal names on one database', (database) => {
  it('apply and send exactly their own 300 events, under 4 kills', { timeout: 240_000 }, async () => {
    const params = { database: database.url, events: 300, kills: 4, seed: 1, timeoutMs: 200_000 }
    expect(await servicesUnderKills(params)).toMatchObject({
      applied: { shop: 300, billing: 300 },
      sent: { shop: 300, billing: 300 },
      lost: 0,
      twice: 0,
      foreign: 0,
      kills: 4,
    })
  })
})
