import { expect, it } from 'vitest'
import { committedIn, type KafkaBatch, type KafkaFetchedPartition } from './consumer-client.ts'

const TRANSACTIONAL = 0x10
const CONTROL = 0x20
const ABORT = 0
const COMMIT = 1

function batch(offset: number, attributes: number, key: Buffer | null = null): KafkaBatch {
  const records = [{ offsetDelta: 0, key, value: null, headers: [] }]
  return { firstOffset: BigInt(offset), lastOffsetDelta: 0, attributes, producerId: 7n, records }
}

/** The end of a transaction. */
function end(offset: number, kind: number): KafkaBatch {
  const key = Buffer.alloc(4)
  key.writeInt16BE(kind, 2)
  return batch(offset, TRANSACTIONAL | CONTROL, key)
}

function offsetsIn(partition: Partial<KafkaFetchedPartition>): number[] {
  const { found } = committedIn({ partitionIndex: 0, abortedTransactions: [], ...partition }, 0n)
  return found.map(({ offset }) => Number(offset))
}

it('a partition without records has none', () => {
  expect(offsetsIn({})).toEqual([])
})

it('records of an aborted transaction are left out, up to its own end', () => {
  const abortedTransactions = [{ producerId: 7n, firstOffset: 2n }]
  const records = [
    batch(0, TRANSACTIONAL),
    batch(2, TRANSACTIONAL),
    // Only its abort marker ends an aborted transaction.
    end(3, COMMIT),
    batch(4, TRANSACTIONAL),
    end(5, ABORT),
    batch(6, TRANSACTIONAL),
  ]
  expect(offsetsIn({ records, abortedTransactions })).toEqual([0, 6])
})
