import { KAFKA_BATCH_BYTES } from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import { isKafkaError, type KafkaAdmin, type KafkaRecord, type MakeKafkaProducer } from './client.ts'
import { KafkaProducerSlot, sendTo } from './producer.ts'
import { judgeTopic, refusedTopics, type TopicJudgement } from './topic.ts'
import {
  cloudEventHeaders,
  cloudEventJson,
  contentMode,
  SENT,
  traceHeaders,
  type OutgoingEvent,
  type Sink,
  type Verdict,
} from '../../sink/sink.ts'

export interface KafkaSinkOptions {
  /**
   * The topic of the events, a topic for each type, or a function of the event. Topics must exist. The aggregate's id
   * is the key, so an aggregate's events are in one partition of a topic, in order. Between topics there is no order.
   */
  topic: string | Readonly<Record<string, string>> | ((event: OutgoingEvent) => string)
  /**
   * CloudEvents' content mode. 'structured' (default): one JSON document. 'binary': attributes are headers (`ce_id`, …),
   * and the value is the data alone.
   */
  mode?: 'structured' | 'binary'
  /**
   * Each call of the relay is one transaction: readers with isolation level 'read committed' see all of it or nothing.
   * Give each relay its own id, which stays the same after a restart. The id fences the transaction that the relay's
   * former process left open.
   */
  transactionalId?: string
  /** An `Admin`, so that the sink can check the topic's settings. */
  admin?: KafkaAdmin
  /** Names the destination. Default: `kafka` and the topic's name. Required if `topic` is not a name */
  name?: string
}

const OPTIONS = new Set(['topic', 'mode', 'transactionalId', 'admin', 'name'])

/**
 * Appends each event to a topic as one CloudEvents JSON document, with an idempotent producer that waits for every
 * in-sync replica. Kafka drops duplicates within one session of the producer, but not after a relay has died.
 *
 * @example
 * const make = (settings: KafkaProducerSettings) => new Producer({ clientId, bootstrapBrokers, ...settings })
 * await once.relay({ to: kafkaSink(make, { topic: 'payments' }) }).start()
 */
export function kafkaSink(make: MakeKafkaProducer, options: KafkaSinkOptions): Sink {
  const { topics, topicOf, mode, name, transactionalId } = checked(make, options)
  const slot = new KafkaProducerSlot(make, transactionalId)
  let judged: TopicJudgement = { proves: 'accepted', warnings: [] }

  /** Throws at the first chunk that the broker refuses. */
  async function produce(chunks: readonly Chunk[], signal: AbortSignal, sent: (chunk: Chunk) => void): Promise<void> {
    const all = async (to: Parameters<typeof sendTo>[0]): Promise<void> => {
      for (const chunk of chunks) {
        await sendTo(to, chunk.records).catch((error: unknown) => {
          throw isTooLarge(error) ? new TooLarge(chunk, error) : error
        })
        if (transactionalId === undefined) sent(chunk)
      }
    }
    if (transactionalId === undefined) return slot.use(signal, all)
    await slot.transaction(signal, all)
    for (const chunk of chunks) sent(chunk)
  }

  return {
    name,
    system: 'kafka',
    get proves() {
      return judged.proves
    },
    dedupes: false,
    orders: true,
    async open() {
      if (topics.length === 0) {
        await slot.use(undefined, (producer) => producer.metadata({ topics: [], forceUpdate: true }))
        return ['topic is a function, so its topics were not checked']
      }
      const all = await slot.use(undefined, (producer) =>
        Promise.all(topics.map((topic) => judgeTopic(producer, options.admin, topic))),
      )
      const proves = all.every((of) => of.proves === 'replicated') ? 'replicated' : 'accepted'
      judged = { proves, warnings: all.flatMap(({ warnings }) => warnings) }
      return judged.warnings
    },
    async send(events, { signal, told }) {
      const verdicts: (Verdict | undefined)[] = []
      const records = events.map((event, index) => {
        try {
          return recordOf(event, topicOf(event), mode)
        } catch (error) {
          // Only this event and the later events of its aggregate fail.
          giveUp(index, error, true)
          return UNWRITABLE
        }
      })
      if (topics.length !== 1) {
        const named = new Set(records.map(({ topic }) => topic).filter((topic) => topic !== UNWRITABLE.topic))
        const refused = await slot.use(signal, (producer) => refusedTopics(producer, [...named]))
        for (const [index, { topic }] of records.entries()) {
          // If the broker refuses every topic, it is at fault, as after a change of its rights.
          if (refused.has(topic)) giveUp(index, refused.get(topic), true, true)
        }
      }
      let most = KAFKA_BATCH_BYTES
      for (;;) {
        const open = [...events.keys()].filter((index) => !verdicts[index])
        if (open.length === 0) return verdicts as Verdict[]
        try {
          await produce(chunksOf(open, records, most), signal, ({ indexes }) => {
            for (const index of indexes) {
              verdicts[index] = SENT
              told?.(index, SENT)
            }
          })
        } catch (error) {
          if (!(error instanceof TooLarge)) throw error
          const [culprit] = error.chunk.indexes
          // The records were too large for one request, so each is sent alone.
          if (error.chunk.indexes.length > 1) most = 0
          else if (culprit !== undefined) giveUp(culprit, oversize(records[culprit] as KafkaRecord, error.cause), false)
        }
      }

      function giveUp(culprit: number, error: unknown, retryable: boolean, perhapsDown = false): void {
        const { id } = (events[culprit] as OutgoingEvent).aggregate
        for (const [index, { aggregate }] of events.entries()) {
          // Later events of the aggregate must not overtake the failed one.
          if (index < culprit || aggregate.id !== id) continue
          verdicts[index] ??= { kind: 'failed', error, retryable, perhapsDown }
        }
      }
    },
    close: () => slot.close(),
  }
}

/** Records of one request, and the indexes of their events. */
interface Chunk {
  readonly indexes: number[]
  readonly records: KafkaRecord[]
}

class TooLarge extends Error {
  readonly chunk: Chunk
  constructor(chunk: Chunk, cause: unknown) {
    super('more than the topic takes (max.message.bytes)', { cause })
    this.chunk = chunk
  }
}

const UNWRITABLE: KafkaRecord = { topic: '' }

/** The broker's error does not contain the event's size. */
function oversize(record: KafkaRecord, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const message = `the event has ${bytesOf(record)} bytes, more than the topic takes (max.message.bytes): ${reason}`
  return new Error(message, { cause })
}

function bytesOf({ key, value }: KafkaRecord): number {
  return (value?.length ?? 0) + (key?.length ?? 0)
}

function isTooLarge(error: unknown): boolean {
  return isKafkaError(error, 'MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE')
}

const STRUCTURED = { 'content-type': 'application/cloudevents+json; charset=UTF-8' }

function recordOf(event: OutgoingEvent, topic: unknown, mode: 'structured' | 'binary'): KafkaRecord {
  if (!isTopic(topic)) throw new TypeError(`'${String(topic).slice(0, 80)}' is not a valid topic for '${event.type}'`)
  const isBinary = mode === 'binary'
  const texts = {
    ...(isBinary ? cloudEventHeaders(event, 'ce_') : STRUCTURED),
    'event-id': event.id,
    'broker-id': event.brokerId,
    ...traceHeaders(event),
  }
  const headers = new Map(Object.entries(texts).map(([name, value]) => [Buffer.from(name), Buffer.from(value)]))
  const key = Buffer.from(event.headers['partitionkey'] ?? event.aggregate.id)
  return { topic, key, value: Buffer.from(isBinary ? event.body : cloudEventJson(event)), headers }
}

function isTopic(topic: unknown): topic is string {
  return typeof topic === 'string' && /^[\w.-]{1,249}$/.test(topic)
}

/**
 * In order, at most `most` bytes each. A larger record is sent alone, and the broker decides whether it is too large.
 */
function chunksOf(indexes: readonly number[], records: readonly KafkaRecord[], most: number): Chunk[] {
  const chunks: Chunk[] = []
  let bytes = Infinity
  for (const index of indexes) {
    const record = records[index] as KafkaRecord
    const size = bytesOf(record)
    if (bytes + size > most) {
      chunks.push({ indexes: [], records: [] })
      bytes = 0
    }
    const chunk = chunks.at(-1) as Chunk
    chunk.indexes.push(index)
    chunk.records.push(record)
    bytes += size
  }
  return chunks
}

interface Checked {
  /** The known topics. Empty if a function chooses the topic. */
  readonly topics: readonly string[]
  readonly topicOf: (event: OutgoingEvent) => unknown
  readonly mode: 'structured' | 'binary'
  readonly name: string
  readonly transactionalId?: string
}

function checked(make: MakeKafkaProducer, options: KafkaSinkOptions): Checked {
  if (typeof make !== 'function')
    throw invalid('kafkaSink() needs a function that creates a producer with the given settings')
  refuseUnknown(options, OPTIONS, 'kafkaSink()')
  const { topic, transactionalId } = options ?? {}
  const mode = contentMode(options?.mode)
  const name = options?.name ?? (isTopic(topic) ? `kafka ${topic}` : undefined)
  const of = { ...placesOf(topic), mode, name: name ?? '' }
  if (name === undefined) throw invalid('kafkaSink() with several topics needs { name }')
  if (transactionalId === undefined) return of
  if (typeof transactionalId !== 'string' || transactionalId === '') throw invalid('transactionalId must be a string')
  return { ...of, transactionalId }
}

function placesOf(topic: KafkaSinkOptions['topic'] | undefined): Pick<Checked, 'topics' | 'topicOf'> {
  if (typeof topic === 'function') return { topics: [], topicOf: topic }
  const byType = typeof topic === 'object' && topic !== null ? topic : undefined
  const topics = [...new Set(byType ? Object.values(byType) : [topic])]
  if (topics.length === 0 || !topics.every(isTopic))
    throw invalid('kafkaSink({ topic }) needs the name of a topic, or one topic for each type')
  const topicOf = ({ type }: OutgoingEvent): unknown => (Object.hasOwn(byType ?? {}, type) ? byType?.[type] : undefined)
  return { topics, topicOf: byType ? topicOf : () => topic }
}
