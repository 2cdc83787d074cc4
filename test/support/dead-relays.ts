import { shardOf } from '../../src/outbox/publisher.ts'
import type { Outbox } from '../../src/store/outbox.ts'

/** Leaves the trace of relays that died, one after the other, while they sent the events of one aggregate. */
export async function relaysDied(
  outbox: Outbox,
  of: { readonly destination: string; readonly aggregate: string; readonly deaths: number },
): Promise<void> {
  const { destination, aggregate, deaths } = of
  await outbox.open({ destination })
  const relay = '00000000-0000-4000-8000-000000000001'
  const leased = await outbox.lease({ destination, relay, leaseMs: 1, limit: 64 })
  const lease = leased.find(({ shard }) => shard === shardOf(aggregate))
  if (!lease) throw new Error('the shard of the aggregate is not free')
  const { shard, token } = lease
  const ack = { shard, token, cursor: 0, segment: 0, counted: 0, attempt: deaths, tryingTo: 1_000 }
  await outbox.ack({ destination, acks: [ack], hold: [] })
}
