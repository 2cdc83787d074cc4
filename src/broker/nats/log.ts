import { newUuid } from '../../platform/uuid.ts'
import { LogRecreated, type Log, type LogDelivery, type Turn } from '../../source/log-reading.ts'
import { NatsDelivery, type NatsMessage } from './delivery.ts'
import { codeOf, filter, NANOS_PER_MS, streamInfo, type NatsConsumerApi, type NatsStreamApi } from './durable.ts'
import { NatsFetching, type NatsPullConsumer } from './fetching.ts'

const WRONG_LAST_SEQUENCE = 10_071
const PUBLISH_MS = 5_000
/** The server removes a reader that is idle for this long. Then a new one is created. */
const READER_IDLE_MS = 60_000

export interface NatsLogClient {
  readonly consumers: { get(stream: string, name: string): Promise<NatsPullConsumer> }
  publish(
    subject: string,
    payload: string,
    options: { timeout: number; expect: { lastSubjectSequence: number } },
  ): Promise<{ readonly seq: number }>
  jetstreamManager(
    checkAPI?: boolean,
  ): Promise<{ readonly consumers: NatsConsumerApi; readonly streams: NatsStreamApi }>
}

/** A small stream holds one message, which expires. The process that wrote it reads, and writes it again in time. */
export async function natsTurn(
  js: NatsLogClient,
  of: { readonly name: string; readonly keptMs: number },
): Promise<Turn> {
  const { name, keptMs } = of
  const { streams } = await js.jetstreamManager(false)
  const config = { name, subjects: [name], storage: 'memory', max_msgs_per_subject: 1, max_age: keptMs * NANOS_PER_MS }
  // Creating a stream that exists does no harm.
  const make = (): Promise<unknown> => streams.add(config as never)
  await make()
  let isMade = true
  const member = newUuid()
  /** The sequence of our message. 0: there must be no message. */
  let sequence = 0
  const write = async (): Promise<boolean> => {
    try {
      const expect = { lastSubjectSequence: sequence }
      sequence = (await js.publish(name, member, { timeout: PUBLISH_MS, expect })).seq
      return true
    } catch (error) {
      isMade = codeOf(error) === WRONG_LAST_SEQUENCE
      if (!isMade) throw error
      return false
    }
  }
  return {
    keptMs,
    async hold() {
      // A server that restarted has lost the in-memory stream.
      if (!isMade) await make()
      isMade = true
      if (await write()) return true
      // The write may have succeeded although its answer came too late.
      const found = await streams.getMessage(name, { last_by_subj: name })
      sequence = found && new TextDecoder().decode(found.data) === member ? found.seq : 0
      return sequence > 0 && (await write())
    },
    // Purge only up to our own message. A message of another process stays.
    async leave() {
      if (sequence > 0) await streams.purge(name, { seq: sequence + 1 })
    },
  }
}

export interface NatsLogOptions {
  readonly stream: string
  readonly subjects: readonly string[]
  readonly name: string
  readonly signal: AbortSignal
  warn(error: unknown): void
}

/** Reads a stream from any sequence, through a temporary consumer without acknowledgements. */
export class NatsLog implements Log {
  readonly #js: NatsLogClient
  readonly #options: NatsLogOptions
  #fetching: NatsFetching | undefined
  /** The next sequence to read. */
  #next = 0n
  #created = ''
  /** How many messages the current reader has returned. */
  #brought = 0

  constructor(js: NatsLogClient, options: NatsLogOptions) {
    this.#js = js
    this.#options = options
  }

  /** Returns when the current stream was created. From now on only this stream is read. */
  async life(): Promise<string> {
    const { streams } = await this.#js.jetstreamManager(false)
    const { created } = await streamInfo(streams, this.#options.stream)
    if (created !== this.#created) await this.close()
    this.#created = created
    return created
  }

  async read(from: bigint, params: Parameters<Log['read']>[1]): Promise<readonly LogDelivery[]> {
    if (from !== this.#next) await this.close()
    this.#next = from
    this.#fetching ??= new NatsFetching(() => this.#connect(), undefined, this.#options.signal)
    const messages = await this.#fetching.next(params)
    const { partition, suspects } = params
    if (!this.#areNext(messages)) {
      await this.close()
      throw new Error(`messages of ${this.#options.name} were lost in transit; the stream is read again from ${from}`)
    }
    const last = messages.at(-1)
    if (last) this.#next = BigInt(last.seq) + 1n
    return messages.map((message, at) => this.#deliveryOf(message, partition, at < suspects))
  }

  async close(): Promise<void> {
    const fetching = this.#fetching
    this.#fetching = undefined
    await fetching?.close()
  }

  /** Without acknowledgements nothing is redelivered, so the reader's messages are counted to find gaps. */
  #areNext(messages: readonly NatsMessage[]): boolean {
    return messages.every(({ info }) => info.deliverySequence === ++this.#brought)
  }

  #deliveryOf(message: NatsMessage, partition: string, redelivered: boolean): LogDelivery {
    const { name } = this.#options
    const position = { partition, offset: String(message.seq), next: String(message.seq + 1) }
    return new NatsDelivery(message, name, { redelivered, position }) as LogDelivery
  }

  async #connect(): Promise<NatsPullConsumer> {
    const { stream, subjects, name, warn } = this.#options
    const manager = await this.#js.jetstreamManager(false)
    const { state, created } = await streamInfo(manager.streams, stream)
    if (created !== this.#created) throw new LogRecreated(`the stream '${stream}' was deleted and recreated`)
    const { first_seq } = state
    if (this.#next > 0n && BigInt(first_seq) > this.#next) {
      warn(new Error(`messages ${this.#next} to ${first_seq - 1} of ${name} were deleted before they were read`))
    }
    const reader = await manager.consumers.add(stream, {
      ack_policy: 'none',
      deliver_policy: 'by_start_sequence',
      opt_start_seq: Math.max(1, Number(this.#next)),
      inactive_threshold: READER_IDLE_MS * NANOS_PER_MS,
      mem_storage: true,
      num_replicas: 1,
      ...filter(subjects),
    } as never)
    this.#brought = 0
    return this.#js.consumers.get(stream, reader.name)
  }
}
