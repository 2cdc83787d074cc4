import { KAFKA_RETRIES, KAFKA_RETRY_MS } from '../../limits.ts'
import { invalid } from '../../options.ts'
import type { KafkaProducer, KafkaRecord, KafkaTransaction, MakeKafkaProducer } from './client.ts'

/** Requests a new producer id, which fences every earlier holder of the transactional id. */
const ANEW = { producerId: -1n, producerEpoch: -1 }

/**
 * A producer that sends one request at a time, and is replaced after any failure. The client advances its sequence
 * numbers only when a request is answered. If requests overlap, or one follows a partly failed request, the broker
 * takes the second for a duplicate: it is acknowledged and lost.
 */
export class KafkaProducerSlot {
  readonly #make: MakeKafkaProducer
  readonly #transactionalId: string | undefined
  #producer: KafkaProducer | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(make: MakeKafkaProducer, transactionalId?: string) {
    this.#make = make
    this.#transactionalId = transactionalId
  }

  /** Runs the work when its turn has come. The producer is discarded if the work throws, or if the signal aborts. */
  use<R>(signal: AbortSignal | undefined, work: (producer: KafkaProducer) => Promise<R>): Promise<R> {
    const turn = this.#last.then(async () => {
      if (signal?.aborted) throw signal.reason
      const producer = (this.#producer ??= this.#made())
      try {
        return await untilAborted(work(producer), signal)
      } catch (error) {
        void this.#discard(producer)
        throw error
      }
    })
    this.#last = turn.catch(() => {})
    return turn
  }

  /** Runs the work in a transaction, whose records become visible together, or not at all. */
  transaction<R>(signal: AbortSignal | undefined, work: (transaction: KafkaTransaction) => Promise<R>): Promise<R> {
    return this.use(signal, async (producer) => {
      const transaction = await producer.beginTransaction(ANEW)
      if (transaction.id !== this.#transactionalId) {
        throw invalid('the producer must be created with the given settings: its transactional id differs')
      }
      try {
        const result = await work(transaction)
        await transaction.commit()
        return result
      } catch (error) {
        await transaction.abort().catch(() => {})
        throw error
      }
    })
  }

  async close(): Promise<void> {
    await this.#last
    if (this.#producer) await this.#discard(this.#producer)
  }

  #made(): KafkaProducer {
    const transactionalId = this.#transactionalId
    const producer = this.#make({
      idempotent: true,
      acks: -1,
      retries: KAFKA_RETRIES,
      retryDelay: KAFKA_RETRY_MS,
      autocreateTopics: false,
      ...ANEW,
      ...(transactionalId === undefined ? {} : { transactionalId }),
    })
    if (typeof producer?.send !== 'function' || typeof producer.beginTransaction !== 'function') {
      throw invalid('kafkaSink() needs a function that creates a Producer of @platformatic/kafka')
    }
    return producer
  }

  /** Callers wait for it only at the end, because a failing producer may take long to close. */
  async #discard(producer: KafkaProducer): Promise<void> {
    if (this.#producer === producer) this.#producer = undefined
    await producer.close(true).catch(() => {})
  }
}

/** Passes the settings with each call, whatever the producer was created with. */
export function sendTo(producer: Pick<KafkaProducer, 'send'>, messages: KafkaRecord[]): Promise<unknown> {
  return producer.send({ messages, idempotent: true, acks: -1 })
}

async function untilAborted<R>(work: Promise<R>, signal: AbortSignal | undefined): Promise<R> {
  if (!signal) return work
  let stop = (): void => {}
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error)
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
