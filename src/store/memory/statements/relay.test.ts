import { expect, it } from 'vitest'
import { MemoryDatabase } from '../database/database.ts'
import { leaseShards, openDestination } from './relay.ts'

it('a shard that is leased again in the same moment has a higher token', async () => {
  const database = new MemoryDatabase({ clock: { now: () => 1_000, after: () => () => {} } })
  const setup = database.begin({ interactive: true })
  await openDestination({ database, tx: setup, pause: () => undefined }, 'd', 0)
  setup.commit()
  const lease = (): number => {
    const tx = database.begin({ interactive: true })
    const [leased] = leaseShards({ database, tx, pause: () => undefined }, { destination: 'd', leaseMs: 0, limit: 1 })
    tx.commit()
    return leased?.token ?? 0
  }
  const first = lease()
  expect(lease()).toBeGreaterThan(first)
})
