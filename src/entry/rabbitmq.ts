export { rabbitmqSink } from '../sink/rabbitmq.ts'
export type { RabbitmqSinkOptions } from '../sink/rabbitmq.ts'
export type { RabbitmqChannel, RabbitmqConnection } from '../sink/rabbitmq-client.ts'
