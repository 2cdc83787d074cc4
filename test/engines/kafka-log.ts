import { Consumer } from '@platformatic/kafka'
import type { KafkaBatch, KafkaBatchRecord, KafkaConsumer } from '../../src/broker/kafka/consumer-client.ts'

const TIMEOUT_MS = 60_000
const BYTES = 8 * 1024 * 1024
const EVERYTHING = 0
const TRANSACTIONAL = 0x10
const CONTROL = 0x20
const ABORT = 0

export interface LogRecord {
  readonly partition: number
  readonly offset: bigint
  readonly key: string
  readonly headers: ReadonlyMap<string, string>
  readonly value: string
  /** What became of the record's transaction. Records without a transaction are committed. */
  fate: 'committed' | 'aborted' | 'open'
}

/**
 * Everything in a topic, in the order of each partition. It judges each record by the marker that ends its transaction,
 * and not by the broker's list of aborted transactions. So it shares nothing with the source under test.
 */
export async function readLog(url: string, topic: string): Promise<LogRecord[]> {
  const client = new Consumer({ clientId: 'log', groupId: `log-${topic}`, bootstrapBrokers: [new URL(url).host] })
  const consumer = client as unknown as KafkaConsumer
  consumer.topics.track(topic)
  try {
    const found = (await consumer.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic)
    const ends = (await consumer.listOffsets({ topics: [topic] })).get(topic) ?? []
    const logs = (found?.partitions ?? []).map(async ({ leader }, partition) => {
      const at = { node: leader, topicId: found?.id ?? '', partition, end: ends[partition] ?? 0n }
      return judged(partition, await batchesOf(consumer, at))
    })
    return (await Promise.all(logs)).flat()
  } finally {
    await Promise.resolve(client.close(true))
  }
}

export async function committedIn(url: string, topic: string): Promise<LogRecord[]> {
  return (await readLog(url, topic)).filter(({ fate }) => fate === 'committed')
}

interface LogPlace {
  readonly node: number
  readonly topicId: string
  readonly partition: number
  readonly end: bigint
}

async function batchesOf(consumer: KafkaConsumer, { node, topicId, partition, end }: LogPlace): Promise<KafkaBatch[]> {
  const batches: KafkaBatch[] = []
  const deadline = performance.now() + TIMEOUT_MS
  for (let next = 0n; next < end;) {
    if (performance.now() > deadline) throw new Error(`partition ${partition} is not read after ${TIMEOUT_MS} ms`)
    const of = { partition, fetchOffset: next, currentLeaderEpoch: -1, lastFetchedEpoch: -1, partitionMaxBytes: BYTES }
    const limits = { minBytes: 1, maxBytes: BYTES, maxWaitTime: 500, isolationLevel: EVERYTHING }
    const fetched = await consumer.fetch({ node, topics: [{ topicId, partitions: [of] }], ...limits })
    for (const batch of fetched.responses[0]?.partitions[0]?.records ?? []) {
      const after = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n
      if (after <= next) continue
      batches.push(batch)
      next = after
    }
  }
  return batches
}

function judged(partition: number, batches: readonly KafkaBatch[]): LogRecord[] {
  const all: LogRecord[] = []
  const open = new Map<bigint, LogRecord[]>()
  for (const { attributes, producerId, firstOffset, records } of batches) {
    if (attributes & CONTROL) {
      const fate = records[0]?.key?.readInt16BE(2) === ABORT ? 'aborted' : 'committed'
      for (const record of open.get(producerId) ?? []) record.fate = fate
      open.delete(producerId)
      continue
    }
    const isOpen = (attributes & TRANSACTIONAL) !== 0
    for (const record of records) {
      const one = recordOf(record, partition, firstOffset + BigInt(record.offsetDelta), isOpen ? 'open' : 'committed')
      all.push(one)
      if (isOpen) open.set(producerId, [...(open.get(producerId) ?? []), one])
    }
  }
  return all
}

function recordOf(
  { key, value, headers }: KafkaBatchRecord,
  partition: number,
  offset: bigint,
  fate: LogRecord['fate'],
): LogRecord {
  const texts = [...headers].map(([name, text]) => [String(name ?? ''), String(text ?? '')] as const)
  return { partition, offset, key: String(key ?? ''), headers: new Map(texts), value: String(value ?? ''), fate }
}
