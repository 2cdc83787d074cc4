import { Consumer } from '@platformatic/kafka'
import { kafkaSink } from '../../src/broker/kafka/sink.ts'
import { kafkaSource } from '../../src/broker/kafka/source.ts'
import { kafkaTransform } from '../../src/broker/kafka/transform.ts'
import type { MakeKafkaConsumer } from '../../src/broker/kafka/consumer-client.ts'
import { deterministicId } from '../../src/entry/natural.ts'
import { makerFor, readerFor } from '../broker/support/kafka.ts'
import { events, INSERT, openWorld as openInbox } from '../consumer/world.ts'
import { openWorld as openOutbox } from '../relay/world.ts'

/** The pipeline's three stages. Each runs in a process of its own. */
export type Stage = 'relay' | 'job' | 'inbox'

export interface Place {
  /** The database of the outbox and of the inbox. */
  readonly database: string
  /** The broker's address. */
  readonly url: string
  /** A prefix for the names of the two topics. */
  readonly place: string
}

export const inputOf = ({ place }: Pick<Place, 'place'>): string => `${place}_in`
export const outputOf = ({ place }: Pick<Place, 'place'>): string => `${place}_out`

const stages: Record<Stage, (at: Place, id: string) => Promise<unknown>> = {
  relay: startRelay,
  job: startJob,
  inbox: startInbox,
}

export function startStage(stage: Stage, at: Place, id: string): Promise<unknown> {
  return stages[stage](at, id)
}

/** Our outbox into Kafka. Each call of the relay is a Kafka transaction, so the topic has aborted records, too. */
async function startRelay(at: Place, id: string): Promise<void> {
  const world = await openOutbox(at.database, 4)
  const to = kafkaSink(makerFor(at.url), { topic: inputOf(at), transactionalId: `${at.place}-${id}` })
  await world.once.relay({ to, lease: '2s' }).start()
}

/** Consumes, transforms and produces. The ids of its results come from the ids of its inputs. */
async function startJob(at: Place, id: string): Promise<void> {
  const groupId = `${at.place}-job`
  const bootstrapBrokers = [new URL(at.url).host]
  const timeouts = { sessionTimeout: 3_000, rebalanceTimeout: 3_000, heartbeatInterval: 500 }
  const consumer = new Consumer({ clientId: id, groupId, bootstrapBrokers, ...timeouts })
  const topics = [inputOf(at)]
  const read = { mode: 'committed', fallbackMode: 'earliest', autocommit: false, isolationLevel: 1 } as const
  kafkaTransform(makerFor(at.url), {
    transactionalId: `${at.place}-${id}`,
    consumer,
    consume: () => consumer.consume({ topics, maxWaitTime: 50, ...read }),
    transform: ({ key, value }) => [{ topic: outputOf(at), key, value: Buffer.from(priced(value.toString())) }],
  }).start()
}

interface CloudEvent {
  readonly id: string
  readonly data: { readonly aggregate: string; readonly n: number }
}

export function pricedId(id: string): string {
  return deterministicId('priced', id)
}

/** The job's result for an event: another event, with an id that a second run of the job computes again. */
function priced(json: string): string {
  const event = JSON.parse(json) as CloudEvent
  return JSON.stringify({ ...event, id: pricedId(event.id), source: 'job' })
}

/** Back into our inbox: one row for each result. */
async function startInbox(at: Place): Promise<void> {
  await inboxReading(at, readerFor(at.url))
}

export async function inboxReading(at: Place, make: MakeKafkaConsumer): Promise<{ close(): Promise<void> }> {
  const world = await openInbox(at.database, 8, undefined, true)
  const from = kafkaSource(make, { topic: outputOf(at), events, sessionTimeout: '3s' })
  const consumer = world.once.consumer(
    'prices',
    { from, concurrency: 8, attempts: 100, unknown: { ignore: ['step.seen', 'link.made'] } },
    {
      'step.made': async ({ id, data }, { tx }) => {
        await tx.query(INSERT, [id, data.aggregate, data.n])
      },
    },
  )
  await consumer.start()
  return {
    async close() {
      await consumer.stop()
      await world.close()
    },
  }
}
