export { natsSink } from '../sink/nats.ts'
export type { NatsJetStream, NatsSinkOptions } from '../sink/nats.ts'
