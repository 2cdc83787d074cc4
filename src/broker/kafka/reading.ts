import { KAFKA_FETCH_BYTES, KAFKA_FETCH_MS, KAFKA_PARTITION_BYTES } from '../../limits.ts'
import type { Recreated } from '../../source/log-life.ts'
import { isKafkaError } from './client.ts'
import {
  committedIn,
  type KafkaAssignment,
  type KafkaConsumer,
  type KafkaFetched,
  type KafkaFetchedPartition,
  type KafkaFound,
  type KafkaTopic,
} from './consumer-client.ts'
import { inTurn } from './in-turn.ts'
import { KafkaDelivery } from './delivery.ts'
import type { Positions, ReceiveParams } from '../../source/source.ts'
import { Timers } from '../../source/timers.ts'
import { Waiting } from '../../source/waiting.ts'

const EARLIEST = -2n
const LATEST = -1n
const OFFSET_OUT_OF_RANGE = 1

export interface KafkaReadingOptions {
  readonly topic: string
  readonly name: string
  readonly from: 'earliest' | 'latest'
  readonly recreated: Recreated
  readonly prefetch: number
  readonly positions: Positions
  readonly signal: AbortSignal
  /** Creates a consumer, to join the group or to fetch. */
  make(): KafkaConsumer
  warn(error: unknown): void
}

/** A partition that is assigned to this process. */
interface Owned {
  readonly partition: number
  readonly name: string
  next: bigint
  /** How many of the first records may have killed a process: those that were running when the position was written. */
  suspects: number
}

/**
 * A record that is parsed when the consumer takes it: a fetch returns thousands, and a partition may be lost before.
 */
interface Unread {
  readonly found: KafkaFound
  readonly partition: string
  readonly redelivered: boolean
}

/**
 * Reads the partitions that the group assigns, each from its position in the database. Kafka's own offsets are not
 * used.
 */
export class KafkaReading {
  readonly #options: KafkaReadingOptions
  readonly #arrived: Waiting<Unread>
  readonly #owned = new Map<string, Owned>()
  readonly #timers = new Timers()
  #revoked: (partitions: readonly string[]) => void = () => {}
  #member: KafkaConsumer | undefined
  #fetcher: KafkaConsumer | undefined
  /** Where this process first began each partition, because a restored database may have lost the position. */
  readonly #firsts = new Map<string, bigint>()
  /** Assigned partitions that are not read yet. */
  #begin: number[] = []
  #working: Promise<void> | undefined
  #failure: { readonly error: unknown } | undefined
  #closed = false
  /** The topic's own id, and the suffix of its partitions' names. */
  #life: { readonly id: string; readonly suffix: string } | undefined
  /** Whether the topic must be checked again. */
  #isStale = false

  constructor(options: KafkaReadingOptions) {
    this.#options = options
    this.#arrived = new Waiting(options.signal)
  }

  /** Rejects if the topic cannot be read. */
  async start(): Promise<void> {
    this.#isStale = true
    await this.#topic()
    this.#join()
  }

  onRevoked(callback: (partitions: readonly string[]) => void): void {
    this.#revoked = callback
  }

  async next({ max, waitMs, signal }: ReceiveParams): Promise<readonly KafkaDelivery[]> {
    const until = performance.now() + waitMs
    for (;;) {
      if (!this.#arrived.any && !this.#closed) {
        this.#throwFailure()
        this.#join()
        this.#working ??= this.#work().finally(() => {
          this.#working = undefined
          this.#arrived.ring()
        })
      }
      const left = until - performance.now()
      const taken = await this.#arrived.take(max, Math.max(0, left), signal)
      const over = this.#closed || signal.aborted || this.#options.signal.aborted || left <= 0
      if (taken.length > 0 || over) return taken.map((one) => this.#read(one))
    }
  }

  /** A log cannot take a message back, so it is delivered again from here. */
  giveBack(deliveries: readonly KafkaDelivery[], delayMs: number): void {
    const given = deliveries.map(({ found, position: { partition } }) => {
      return { found, partition, redelivered: true, owned: this.#owned.get(partition) }
    })
    this.#timers.after(delayMs, () => {
      // If its partition was begun again meanwhile, the message comes in its turn. Here it would overtake unread
      // messages.
      this.#arrived.pushAll(given.filter(({ partition, owned }) => owned && this.#owned.get(partition) === owned))
    })
  }

  /** Begins these partitions again, from their positions in the database. */
  again(names: readonly string[]): void {
    const lost = names.flatMap((name) => this.#owned.get(name) ?? [])
    for (const { name } of lost) this.#owned.delete(name)
    this.#arrived.drop(({ partition }) => names.includes(partition))
    this.#revoked(lost.map(({ name }) => name))
    this.#begin = [...new Set([...this.#begin, ...lost.map(({ partition }) => partition)])]
    this.#arrived.ring()
  }

  #read({ found, partition, redelivered }: Unread): KafkaDelivery {
    return new KafkaDelivery(found, partition, this.#options.name, redelivered)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#timers.clear()
    this.#arrived.end()
    const [member, fetcher] = [this.#member, this.#fetcher]
    this.#member = undefined
    this.#fetcher = undefined
    // Leaving the group notifies the other members at once, unless the server is away.
    await Promise.allSettled([member?.close(true), fetcher?.close(true)])
    await this.#working?.catch(() => {})
  }

  #throwFailure(): void {
    const failure = this.#failure
    this.#failure = undefined
    if (failure) throw failure.error
  }

  #fetching(): KafkaConsumer {
    if (!this.#fetcher) {
      this.#fetcher = this.#made((client, error) => {
        if (this.#fetcher === client) this.#fetcher = undefined
        this.#fail(error)
      })
    }
    return this.#fetcher
  }

  /** Joins the group, unless this process is already a member. */
  #join(): void {
    if (this.#member || this.#closed) return
    const lost = (client: KafkaConsumer, error: unknown): void => {
      if (this.#member !== client) return
      this.#member = undefined
      void client.close(true).catch(() => {})
      this.#fail(error)
    }
    const member = this.#made(lost)
    this.#member = member
    member.on('consumer:group:join', ({ assignments }) => {
      if (this.#member === member) this.#assigned(assignments ?? [])
    })
    member.joinGroup({}).catch((error: unknown) => lost(member, error))
  }

  #made(onError: (client: KafkaConsumer, error: unknown) => void): KafkaConsumer {
    const client = this.#options.make()
    client.topics.track(this.#options.topic)
    const emitter = client as unknown as { on(event: 'error', listener: (error: unknown) => void): unknown }
    emitter.on('error', (error) => onError(client, error))
    return client
  }

  #fail(error: unknown): void {
    if (this.#closed) return
    this.#failure = { error }
    this.#arrived.ring()
  }

  /** Partitions that stay assigned continue where they are: the consumer already has everything before. */
  #assigned(assignments: readonly KafkaAssignment[]): void {
    const { topic } = this.#options
    const ours = assignments.filter((one) => one.topic === topic).flatMap(({ partitions }) => [...partitions])
    const names = new Set(ours.map((partition) => this.#nameOf(partition)))
    const lost = [...this.#owned.keys()].filter((name) => !names.has(name))
    for (const name of lost) this.#owned.delete(name)
    if (lost.length > 0) {
      this.#arrived.drop(({ partition }) => lost.includes(partition))
      this.#revoked(lost)
    }
    this.#begin = ours.filter((partition) => !this.#owned.has(this.#nameOf(partition)))
    this.#arrived.ring()
  }

  #nameOf(partition: number): string {
    return `${this.#options.topic}/${partition}${this.#life?.suffix ?? ''}`
  }

  async #work(): Promise<void> {
    try {
      if (this.#isStale) await this.#topic()
      await this.#seek()
      if (this.#owned.size > 0) await this.#fetch()
      else await new Promise((resolve) => setTimeout(resolve, 20))
    } catch (error) {
      this.#isStale = true
      this.#fail(error)
    }
  }

  /** New partitions begin at their position in the database, or else at the beginning or end of the topic. */
  async #seek(): Promise<void> {
    const begin = this.#begin
    if (begin.length === 0) return
    const known = await this.#options.positions.read(begin.map((partition) => this.#nameOf(partition)))
    const fresh = begin.filter((partition) => !known.has(this.#nameOf(partition)))
    const ends = fresh.length > 0 ? await this.#ends(fresh, this.#options.from) : new Map<number, bigint>()
    // The group may have changed the assignment meanwhile.
    if (this.#begin !== begin) return
    this.#begin = []
    for (const partition of begin) {
      const name = this.#nameOf(partition)
      const next = BigInt(known.get(name) ?? this.#firsts.get(name) ?? ends.get(partition) ?? 0n)
      if (!this.#firsts.has(name)) this.#firsts.set(name, next)
      this.#owned.set(name, { partition, name, next, suspects: this.#options.prefetch })
    }
  }

  async #ends(partitions: readonly number[], which: 'earliest' | 'latest'): Promise<Map<number, bigint>> {
    const { topic } = this.#options
    const timestamp = which === 'earliest' ? EARLIEST : LATEST
    const offsets = await this.#fetching().listOffsets({
      topics: [topic],
      partitions: { [topic]: [...partitions] },
      timestamp,
    })
    return new Map(partitions.map((partition) => [partition, offsets.get(topic)?.[partition] ?? 0n]))
  }

  async #fetch(): Promise<void> {
    const fetcher = this.#fetching()
    const metadata = await this.#topic()
    const byLeader = new Map<number, Owned[]>()
    for (const owned of this.#owned.values()) {
      const leader = metadata.partitions[owned.partition]?.leader ?? -1
      byLeader.set(leader, [...(byLeader.get(leader) ?? []), owned])
    }
    await Promise.all([...byLeader].map(([node, owned]) => this.#fetchFrom(fetcher, node, metadata.id, owned)))
  }

  /** Returns the current topic. If it was recreated, its partitions begin again, or nothing is read. */
  async #topic(): Promise<KafkaTopic> {
    const { topic, positions, recreated } = this.#options
    const asked = { topics: [topic], autocreateTopics: false, ...(this.#isStale && { forceUpdate: true }) }
    const found = (await this.#fetching().metadata(asked)).topics.get(topic)
    if (!found) throw new Error(`Kafka has no topic '${topic}'`)
    const { id } = found
    if (this.#life?.id !== id) {
      this.again([...this.#owned.keys()])
      this.#life = { id, suffix: (await positions.lifeOf?.({ name: topic, id, recreated })) ?? '' }
    }
    this.#isStale = false
    return found
  }

  async #fetchFrom(fetcher: KafkaConsumer, node: number, topicId: string, asked: readonly Owned[]): Promise<void> {
    const partitions = asked.map(({ partition, next }) => ({
      partition,
      fetchOffset: next,
      currentLeaderEpoch: -1,
      lastFetchedEpoch: -1,
      partitionMaxBytes: KAFKA_PARTITION_BYTES,
    }))
    const limits = { minBytes: 1, maxBytes: KAFKA_FETCH_BYTES, maxWaitTime: KAFKA_FETCH_MS, isolationLevel: 1 }
    try {
      const fetched = await fetcher.fetch({ node, topics: [{ topicId, partitions }], ...limits })
      // Mix the partitions. Otherwise the last one would wait for all others.
      this.#arrived.pushAll(inTurn(partitionsIn(fetched).map((partition) => this.#take(asked, partition))))
    } catch (error) {
      if (!isKafkaError(error, 'OFFSET_OUT_OF_RANGE')) throw error
      await this.#skipDeleted(asked, error)
    }
  }

  #take(asked: readonly Owned[], fetched: KafkaFetchedPartition): Unread[] {
    const owned = asked.find(({ partition }) => partition === fetched.partitionIndex)
    // Another process may have the partition by now.
    if (!owned || this.#owned.get(owned.name) !== owned) return []
    const { found, next } = committedIn(fetched, owned.next)
    owned.next = next
    return found.map((one) => ({ found: one, partition: owned.name, redelivered: owned.suspects-- > 0 }))
  }

  /** Retention deleted records before they were read. Reports this, and continues with the oldest record. */
  async #skipDeleted(asked: readonly Owned[], error: unknown): Promise<void> {
    const { response } = findResponse(error)
    const gone = partitionsIn(response).filter(({ errorCode }) => errorCode === OFFSET_OUT_OF_RANGE)
    const begins = await this.#ends(gone.map(({ partitionIndex }) => partitionIndex), 'earliest') // prettier-ignore
    for (const owned of asked) {
      const begin = begins.get(owned.partition)
      if (begin === undefined) continue
      const lost = `events ${owned.next} to ${begin} of ${owned.name} were deleted before they were read`
      this.#options.warn(new Error(begin > owned.next ? lost : `${owned.name} ends before position ${owned.next}`))
      owned.next = begin
    }
  }
}

function partitionsIn(fetched: KafkaFetched | undefined): KafkaFetchedPartition[] {
  return (fetched?.responses ?? []).flatMap(({ partitions }) => [...partitions])
}

/** Finds the response in an error of the client, or in an error inside it. */
function findResponse(error: unknown): { readonly response?: KafkaFetched } {
  const { response, errors } = (error ?? {}) as { response?: KafkaFetched; errors?: readonly unknown[] }
  if (response) return { response }
  for (const inner of errors ?? []) {
    const found = findResponse(inner)
    if (found.response) return found
  }
  return {}
}
