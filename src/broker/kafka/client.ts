/**
 * The part of a producer of @platformatic/kafka 1.x that the sink uses. You pass a function that creates a producer,
 * not a producer. After an error the producer's sequence numbers may be wrong, so the sink creates a new one.
 */
export type MakeKafkaProducer = (settings: KafkaProducerSettings) => KafkaProducer

/** Settings that the sink needs. Spread them last into the options of your `Producer`. */
export interface KafkaProducerSettings {
  idempotent: true
  /** -1: every in-sync replica acknowledges. */
  acks: -1
  /** Few retries: the client must not keep trying after the relay has given up. */
  retries: number
  retryDelay: number
  autocreateTopics: false
  /** -1 requests a new id and epoch. Any other value does not fence an earlier holder of the transactional id. */
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

/** The part of an `Admin` that the sink uses. */
export interface KafkaAdmin {
  describeConfigs(options: {
    resources: { resourceType: 2; resourceName: string; configurationKeys: string[] }[]
  }): Promise<readonly { readonly configs: readonly { readonly name: string; readonly value?: string | null }[] }[]>
}

/** Whether an error, or an error inside it, is a broker error with one of these names. */
export function isKafkaError(error: unknown, ...ids: readonly string[]): boolean {
  const { findBy } = (error ?? {}) as { findBy?: (property: string, value: string) => unknown }
  return typeof findBy === 'function' && ids.some((id) => Boolean(findBy.call(error, 'apiId', id)))
}
