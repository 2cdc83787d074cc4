import { expect, test } from 'vitest'
import type { Clock } from '../platform/clock.ts'
import type { Outbox } from '../store/outbox.ts'
import { ShardLeases } from './shard-leases.ts'

/** Takes leases for `ms`, and loses each of them at once. Returns when it took them. */
async function leasesOf(ms: number): Promise<number[]> {
  let now = 0
  const clock = { now: () => now, after: () => () => {} } as unknown as Clock
  const leased: number[] = []
  const outbox: Partial<Outbox> = {
    open: async () => {},
    beat: async ({ leases }) => ({ relays: 1, free: 1, ours: leases.map(({ shard }) => shard), due: false }),
    // The database still knows the lease, which another connection could not use.
    release: async ({ leases }) => leases.length,
    async lease() {
      leased.push(now)
      return [{ shard: 1, token: now, cursor: 0, segment: 0, counted: 0, tryingTo: null, attempt: 0, blocked: [] }]
    },
  }
  const leases = new ShardLeases({
    outbox: outbox as Outbox,
    clock,
    observe: () => {},
    destination: 'd',
    relay: 'r',
    source: 's',
    leaseMs: 3_000,
    tell: () => {},
    asksSince: () => null,
  })
  await leases.start()
  for (; now < ms; now += 50) {
    leases.drop([...leases.shards.values()])
    await leases.tend()
  }
  await leases.stop()
  return leased
}

test('a relay whose leases are lost again and again takes them more and more rarely, and never gives up', async () => {
  const leased = await leasesOf(60_000)
  // The first loss is a failover, and is followed at once.
  expect((leased[1] as number) - (leased[0] as number)).toBeLessThan(500)
  expect(leased.length).toBeLessThan(30)
  expect(leased.filter((at) => at > 50_000).length).toBeGreaterThan(1)
})
