import { KAFKA_TRANSFORM_BATCH, KAFKA_TRANSFORM_GATHER_MS, KAFKA_TRANSFORM_PAUSE_MS_MAX } from '../../limits.ts'
import { invalid } from '../../options.ts'
import type { KafkaRecord, MakeKafkaProducer } from './client.ts'
import { KafkaProducerSlot, sendTo } from './producer.ts'

/** The part of a message that `kafkaTransform` uses. */
export interface KafkaInput {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
}

export interface KafkaTransformOptions<M extends KafkaInput> {
  /** Each process needs its own id, which stays the same after a restart. */
  transactionalId: string
  /** The `Consumer` whose group keeps the offsets. */
  consumer: { readonly groupId: string }
  /**
   * Opens a stream at the group's offsets. It is called at the start, and again after a failure: `() =>
   * consumer.consume({ topics, mode: 'committed', fallbackMode: 'earliest', autocommit: false, isolationLevel: 1 })`.
   */
  consume: () => Promise<AsyncIterable<M> & { close(): Promise<void> }>
  /** Returns the results of a message. It may run more than once, but its results are appended once. */
  transform: (message: M) => readonly KafkaRecord[] | Promise<readonly KafkaRecord[]>
  /** Called with the reason when a batch is read again. */
  onError?: (error: unknown) => void
}

/**
 * Kafka's own exactly-once. Results and the offsets of the group commit together, so readers with isolation level 'read
 * committed' see each result once. Nothing outside Kafka is part of the transaction: for an effect in a database use
 * `kafkaSource`.
 */
export function kafkaTransform<M extends KafkaInput>(
  make: MakeKafkaProducer,
  options: KafkaTransformOptions<M>,
): { start(): void; stop(): Promise<void> } {
  const { transactionalId, consumer, consume, transform } = options
  if (typeof transactionalId !== 'string' || transactionalId === '') {
    throw invalid('kafkaTransform() needs a transactionalId')
  }
  const slot = new KafkaProducerSlot(make, transactionalId)
  const stopping = new AbortController()
  let ended: Promise<void> | undefined

  async function commit(batch: readonly M[]): Promise<void> {
    await slot.transaction(undefined, async (transaction) => {
      const records: KafkaRecord[] = []
      for (const message of batch) records.push(...(await transform(message)))
      if (records.length > 0) await sendTo(transaction, records)
      await transaction.addConsumer(consumer as never)
      const last = new Map(batch.map((message) => [`${message.topic}/${message.partition}`, message]))
      // One call at a time: the client drops all but the first of several concurrent calls.
      for (const message of last.values()) await transaction.addOffset(message as never)
    })
  }

  async function readOnce(): Promise<void> {
    const stream = await consume()
    const gather = new Gatherer(stream, stopping.signal)
    const progress = new Progress()
    try {
      for (let batch = await gather.next(); batch.length > 0; batch = await gather.next()) {
        progress.add(batch)
        await commit(batch)
      }
    } finally {
      await stream.close().catch(() => {})
    }
  }

  async function run(): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted;) {
      try {
        await readOnce()
        failures = 0
      } catch (error) {
        options.onError?.(error)
        const pause = Math.min(KAFKA_TRANSFORM_PAUSE_MS_MAX, 100 * 2 ** failures++)
        await sleep(pause, stopping.signal)
      }
    }
    await slot.close()
  }

  return {
    start() {
      ended ??= run()
    },
    async stop() {
      stopping.abort()
      await ended
    },
  }
}

/**
 * Throws if a stream delivers a message again, so that everything is read again from the group's offsets. After a
 * rebalance the client fetches from there, and keeps the messages that it had fetched before. A batch with both would
 * commit results twice, and an offset that is too low.
 */
class Progress {
  readonly #last = new Map<string, bigint>()

  add(batch: readonly KafkaInput[]): void {
    for (const { topic, partition, offset } of batch) {
      const name = `${topic}/${partition}`
      if (offset <= (this.#last.get(name) ?? -1n)) throw new Error(`${name}/${offset} was delivered again`)
      this.#last.set(name, offset)
    }
  }
}

/** Returns the messages that the stream has now, at least one. An empty list means that the stream has ended. */
class Gatherer<M> {
  readonly #iterator: AsyncIterator<M>
  readonly #signal: AbortSignal
  #next: Promise<IteratorResult<M>> | undefined

  constructor(stream: AsyncIterable<M>, signal: AbortSignal) {
    this.#iterator = stream[Symbol.asyncIterator]()
    this.#signal = signal
  }

  async next(): Promise<M[]> {
    const batch: M[] = []
    const until = performance.now() + KAFKA_TRANSFORM_GATHER_MS
    while (batch.length < KAFKA_TRANSFORM_BATCH && !this.#signal.aborted) {
      this.#next ??= this.#iterator.next()
      const waitMs = batch.length === 0 ? undefined : Math.max(0, until - performance.now())
      const enough = new AbortController()
      const result = await Promise.race([this.#next, sleep(waitMs, AbortSignal.any([this.#signal, enough.signal]))])
      enough.abort()
      if (result === undefined || result.done) break
      this.#next = undefined
      batch.push(result.value)
    }
    return this.#signal.aborted ? [] : batch
  }
}

/** Without a time, it waits until the signal aborts. */
function sleep(ms: number | undefined, signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', over)
      resolve(undefined)
    }
    const timer = ms === undefined ? undefined : setTimeout(over, ms)
    signal.addEventListener('abort', over, { once: true })
    if (signal.aborted) over()
  })
}
