export { natsSink } from '../sink/nats.ts'
export type { NatsJetStream, NatsSinkOptions } from '../sink/nats.ts'
export { natsSource } from '../source/nats.ts'
export type { NatsJetStreamReader, NatsSourceOptions } from '../source/nats.ts'
