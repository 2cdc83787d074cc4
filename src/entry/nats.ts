export { natsSink } from '../broker/nats/sink.ts'
export type { NatsJetStream, NatsSinkOptions } from '../broker/nats/sink.ts'
export { natsSource } from '../broker/nats/source.ts'
export type { NatsJetStreamReader, NatsSourceOptions } from '../broker/nats/source.ts'
