import type { Duration } from '../../../src/duration.ts'
import type { Events } from '../../../src/outbox/event.ts'
import type { Sink } from '../../../src/sink/sink.ts'
import type { EventsOf, PulledSource } from '../../../src/source/source.ts'
import type { ServerName } from '../../../scripts/servers/index.ts'
import type { Received } from '../../../src/testing/sink-contract/index.ts'

/** A broker as the tests see it. One file per broker in this folder, named like the broker. */
export interface Broker {
  readonly server: ServerName
  /**
   * Connects to a place of its own: a stream, a queue, a topic. `make`: it is made, and must be removed. `inOrder`: it is
   * read with what keeps the broker's own order.
   */
  open(params: {
    readonly url: string
    readonly place: string
    readonly make: boolean
    readonly inOrder?: boolean
  }): Promise<BrokerPlace>
}

export interface BrokerPlace {
  sink(): Sink
  /** `holdsFor`: how long a delivery may be unsettled. */
  source?<E extends Events>(events: E, options?: { readonly holdsFor?: Duration }): PulledSource<EventsOf<E>>
  /** A message that is no event. */
  sendText?(text: string): Promise<void>
  /** What this consumer has still to be given, or to settle. */
  unsettled?(consumer: string): Promise<number>
  /** Of a log that is read by positions in the database: where each partition ends. undefined: it is not read so. */
  ends?(): Promise<ReadonlyMap<string, bigint> | undefined>
  /** Everything that arrived so far, in order; where the broker keeps several logs, in order within each aggregate. */
  received(): Promise<readonly Received[]>
  /** Data with so many bytes is more than the broker takes. */
  readonly tooLarge?: number
  /** The connection works again after the server was away. */
  back(): Promise<void>
  remove(): Promise<void>
  close(): Promise<void>
}

/** By the name of their server. Imported when asked for: a process needs one client only. */
const BROKERS = {
  nats: async () => (await import('./nats.ts')).nats,
  redis: async () => (await import('./redis.ts')).redis,
  kafka: async () => (await import('./kafka.ts')).kafka,
  rabbitmq: async () => (await import('./rabbitmq.ts')).rabbitmq,
  sqs: async () => (await import('./sqs.ts')).sqs,
  sqsFifo: async () => (await import('./sqs.ts')).sqsFifo,
} as const satisfies Record<string, () => Promise<Broker>>

export type BrokerName = keyof typeof BROKERS

export const brokerNames: readonly BrokerName[] = Object.keys(BROKERS) as BrokerName[]

export function brokerNamed(name: string): Promise<Broker> {
  const found = brokerNames.find((known) => known === name)
  if (!found) throw new Error(`no broker '${name}'; there are ${brokerNames.join(', ')}`)
  return BROKERS[found]()
}

/** What a CloudEvents JSON document says, for the comparison with what was sent. */
export function receivedFrom(json: string, brokerId: string): Received {
  const { id, source, type, subject, time, data, traceparent } = JSON.parse(json) as Omit<Received, 'brokerId'>
  return { id, source, type, subject, time, data, brokerId, traceparent }
}
