/**
 * The part of a `Consumer` of @platformatic/kafka 1.x that the source uses. The source creates two consumers: one joins
 * the group, the other fetches.
 */
export type MakeKafkaConsumer = (settings: KafkaConsumerSettings) => KafkaConsumer

/** Settings that the source needs. Spread them last into the options of your `Consumer`. */
export interface KafkaConsumerSettings {
  groupId: string
  autocommit: false
  /** Read committed. */
  isolationLevel: 1
  sessionTimeout: number
  rebalanceTimeout: number
  heartbeatInterval: number
  retries: number
  retryDelay: number
  autocreateTopics: false
}

export interface KafkaConsumer {
  readonly topics: { track(topic: string): boolean }
  joinGroup(options?: Record<string, never>): Promise<unknown>
  fetch(options: {
    node: number
    topics: { topicId: string; partitions: KafkaFetchPartition[] }[]
    minBytes: number
    maxBytes: number
    maxWaitTime: number
    isolationLevel: number
  }): Promise<KafkaFetched>
  listOffsets(options: {
    topics: string[]
    partitions?: Record<string, number[]>
    timestamp?: bigint
  }): Promise<ReadonlyMap<string, readonly bigint[]>>
  metadata(options: { topics?: string[]; autocreateTopics?: boolean; forceUpdate?: boolean }): Promise<{
    readonly topics: ReadonlyMap<string, KafkaTopic>
  }>
  on(event: 'consumer:group:join', listener: (joined: { assignments?: readonly KafkaAssignment[] }) => void): unknown
  close(force?: boolean): Promise<void>
}

export interface KafkaTopic {
  readonly id: string
  readonly partitions: readonly { readonly leader: number }[]
}

export interface KafkaAssignment {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface KafkaFetchPartition {
  partition: number
  fetchOffset: bigint
  currentLeaderEpoch: number
  lastFetchedEpoch: number
  partitionMaxBytes: number
}

export interface KafkaFetched {
  readonly responses: readonly {
    readonly topicId: string
    readonly partitions: readonly KafkaFetchedPartition[]
  }[]
}

export interface KafkaFetchedPartition {
  readonly partitionIndex: number
  readonly errorCode?: number
  readonly abortedTransactions: readonly { readonly producerId: bigint; readonly firstOffset: bigint }[]
  readonly records?: readonly KafkaBatch[]
}

export interface KafkaBatch {
  readonly firstOffset: bigint
  readonly lastOffsetDelta: number
  readonly attributes: number
  readonly producerId: bigint
  readonly records: readonly KafkaBatchRecord[]
}

export interface KafkaBatchRecord {
  readonly offsetDelta: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: Iterable<readonly [Buffer | null | undefined, Buffer | null | undefined]>
}

const TRANSACTIONAL = 0x10
const CONTROL = 0x20
const ABORT = 0

/** A committed record and its offset. */
export interface KafkaFound {
  readonly offset: bigint
  readonly record: KafkaBatchRecord
}

/**
 * Returns the records of a partition, without those of aborted transactions. The client's own filter misses a
 * transaction whose end was not fetched yet. It also handles only one aborted transaction per producer.
 */
export function committedIn(partition: KafkaFetchedPartition, from: bigint): { found: KafkaFound[]; next: bigint } {
  const starts = partition.abortedTransactions.toSorted((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1))
  const undone = new Set<bigint>()
  const found: KafkaFound[] = []
  let next = from
  for (const batch of partition.records ?? []) {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta)
    while (starts[0] && starts[0].firstOffset <= last) undone.add((starts.shift() as (typeof starts)[0]).producerId)
    next = last + 1n > next ? last + 1n : next
    if (batch.attributes & CONTROL) {
      if (batch.records[0]?.key?.readInt16BE(2) === ABORT) undone.delete(batch.producerId)
      continue
    }
    if (batch.attributes & TRANSACTIONAL && undone.has(batch.producerId)) continue
    for (const record of batch.records) {
      const offset = batch.firstOffset + BigInt(record.offsetDelta)
      if (offset >= from) found.push({ offset, record })
    }
  }
  return { found, next }
}
