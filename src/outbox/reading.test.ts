import { describe, expect, it } from 'vitest'
import type { Outbox, StoredEvent } from '../store/outbox.ts'
import { Reading } from './reading.ts'
import type { ShardLeases } from './shard-leases.ts'
import type { Shard } from './shard.ts'

const shards = [1, 2, 3, 4].map((shard) => ({ shard }) as Shard)
const events = (shard: number, count: number): StoredEvent[] =>
  Array.from({ length: count }, (_, n) => ({ shard, seq: n, payload: '{}' }) as StoredEvent)

/** What is asked for after a read of these events, with room for so many. */
function asked(read: readonly StoredEvent[], room: number) {
  const reading = new Reading({} as Outbox, 'sink', {} as ShardLeases)
  const first = reading.next(shards, 40)
  const ends = new Map([...new Set(read.map(({ shard }) => shard))].map((no) => [shards[no - 1] as Shard, []]))
  reading.learn(first, { events: read, ends })
  const { from, perShard, limit } = reading.next(shards, room)
  return { first: first.perShard, from: from.map(({ shard }) => shard), perShard, limit }
}

describe('the size of a read', () => {
  it('is shared by the shards that had more events than the last read took', () => {
    expect(asked([], 100)).toMatchObject({ first: 10, perShard: 25, limit: 100 })
    expect(asked([...events(1, 10), ...events(2, 3)], 100)).toMatchObject({ perShard: 100 })
    expect(asked([...events(1, 10), ...events(2, 10)], 100)).toMatchObject({ perShard: 50 })
    expect(asked(events(1, 1), 100)).toMatchObject({ perShard: 100 })
  })

  it('has a lower limit, and another shard is first each time', () => {
    expect(asked([], 1)).toMatchObject({ perShard: 8, limit: 8, from: [2, 3, 4, 1] })
  })
})
