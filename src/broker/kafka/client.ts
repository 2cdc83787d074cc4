/**
 * What is used of @platformatic/kafka 1.x. You pass a function that makes a producer, not a producer. After an error
 * its sequence numbers are no longer right, and the sink replaces it.
 */
export type MakeKafkaProducer = (settings: KafkaProducerSettings) => KafkaProducer

/** What the sink asks of its producer: spread it into the constructor's options, last. */
export interface KafkaProducerSettings {
  idempotent: true
  /** -1: every replica in sync. */
  acks: -1
  /** Few: an endless retry would go on behind the back of a relay that has given up. */
  retries: number
  retryDelay: number
  autocreateTopics: false
  /** -1 asks for a new id and epoch; anything else does not fence an earlier holder of the transactional id. */
  producerId: bigint
  producerEpoch: number
  transactionalId?: string
}

export interface KafkaProducer {
  send(options: KafkaSend): Promise<unknown>
  beginTransaction(options?: { producerId?: bigint; producerEpoch?: number }): Promise<KafkaTransaction>
  metadata(options: { topics?: string[]; autocreateTopics?: boolean; forceUpdate?: boolean }): Promise<KafkaMetadata>
  close(force?: boolean): Promise<void>
}

export interface KafkaTransaction {
  readonly id: string
  send(options: KafkaSend): Promise<unknown>
  addConsumer(consumer: never): Promise<void>
  addOffset(message: never): Promise<void>
  commit(): Promise<void>
  abort(): Promise<void>
}

export interface KafkaSend {
  messages: KafkaRecord[]
  idempotent?: boolean
  acks?: number
}

export interface KafkaRecord {
  topic: string
  key?: Buffer
  value?: Buffer
  headers?: Map<Buffer, Buffer>
}

export interface KafkaMetadata {
  readonly topics: ReadonlyMap<string, { readonly partitions: readonly { readonly replicas: readonly number[] }[] }>
}

/** What is used of an `Admin`. */
export interface KafkaAdmin {
  describeConfigs(options: {
    resources: { resourceType: 2; resourceName: string; configurationKeys: string[] }[]
  }): Promise<readonly { readonly configs: readonly { readonly name: string; readonly value?: string | null }[] }[]>
}

/** Whether an error, or one of those it is made of, is the broker's error of this name. */
export function isKafkaError(error: unknown, ...ids: readonly string[]): boolean {
  const { findBy } = (error ?? {}) as { findBy?: (property: string, value: string) => unknown }
  return typeof findBy === 'function' && ids.some((id) => Boolean(findBy.call(error, 'apiId', id)))
}
