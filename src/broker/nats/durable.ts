import { invalid } from '../../options.ts'

export const NANOS_PER_MS = 1_000_000
const CONSUMER_NOT_FOUND = 10_014
const STREAM_NOT_FOUND = 10_059

export interface NatsConsumerConfig {
  readonly ack_policy: string
  /** Nanoseconds. */
  readonly ack_wait?: number
  readonly max_deliver?: number
  readonly deliver_subject?: string
}

export interface NatsConsumerApi {
  info(stream: string, durable: string): Promise<{ readonly config: NatsConsumerConfig }>
  add(stream: string, config: never): Promise<{ readonly name: string }>
  update(stream: string, durable: string, config: never): Promise<unknown>
}

export interface NatsStreamApi {
  info(stream: string): Promise<{
    /** When the stream was created. */
    readonly created: string
    readonly config: { readonly max_age: number }
    readonly state: { readonly first_seq: number }
  }>
  add(config: never): Promise<unknown>
  purge(stream: string, options: { seq: number }): Promise<unknown>
  getMessage(
    stream: string,
    query: { last_by_subj: string },
  ): Promise<{ readonly seq: number; readonly data: Uint8Array } | null>
}

/**
 * Creates the durable, or checks an existing one. Returns how long the stream keeps an event, and so how late it can
 * come again.
 */
export async function ensureDurable(
  manager: { readonly consumers: NatsConsumerApi; readonly streams: NatsStreamApi },
  wanted: {
    readonly stream: string
    readonly durable: string
    readonly subjects: readonly string[]
    readonly ackWaitMs: number
    advise(advice: string): void
  },
): Promise<number> {
  const { stream, durable, ackWaitMs } = wanted
  const { max_age } = (await streamInfo(manager.streams, stream)).config
  const found = await manager.consumers.info(stream, durable).catch((error: unknown) => {
    if (codeOf(error) === CONSUMER_NOT_FOUND) return undefined
    throw error
  })
  if (!found) await manager.consumers.add(stream, newDurable() as never)
  else await check(found.config)
  return keptForMs(max_age)

  function newDurable(): Record<string, unknown> {
    return {
      durable_name: durable,
      ack_policy: 'explicit',
      deliver_policy: 'all',
      ack_wait: ackWaitMs * NANOS_PER_MS,
      // The inbox counts attempts. After its own limit, NATS would silently drop the event.
      max_deliver: -1,
      // No limit: each process requests only what it has room for, and delayed messages must not block the others.
      max_ack_pending: -1,
      ...filter(wanted.subjects),
    }
  }

  async function check({ ack_policy, ack_wait, max_deliver, deliver_subject }: NatsConsumerConfig): Promise<void> {
    if (ack_policy !== 'explicit' || deliver_subject !== undefined) {
      throw invalid(
        `the durable '${durable}' is not a pull consumer with explicit acknowledgements; set another durable`,
      )
    }
    if (max_deliver !== undefined && max_deliver > 0) {
      const line = `max_deliver of the durable '${durable}' is ${max_deliver}: after that many deliveries, NATS drops an event without a dead letter. Set -1`
      wanted.advise(line)
    }
    if (ack_wait !== ackWaitMs * NANOS_PER_MS) {
      await manager.consumers.update(stream, durable, { ack_wait: ackWaitMs * NANOS_PER_MS } as never)
    }
  }
}

export async function streamInfo(
  streams: NatsStreamApi,
  stream: string,
): Promise<Awaited<ReturnType<NatsStreamApi['info']>>> {
  try {
    return await streams.info(stream)
  } catch (error) {
    if (codeOf(error) === STREAM_NOT_FOUND) throw invalid(`the stream '${stream}' does not exist`, error)
    throw error
  }
}

/** Infinity: for ever. */
export function keptForMs(maxAge: number): number {
  return maxAge > 0 ? Math.ceil(maxAge / NANOS_PER_MS) : Infinity
}

/** Servers before 2.10 support only one filter subject. */
export function filter(subjects: readonly string[]): Record<string, unknown> {
  if (subjects.length === 0) return {}
  return subjects.length === 1 ? { filter_subject: subjects[0] } : { filter_subjects: [...subjects] }
}

export function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null)?.code
}
