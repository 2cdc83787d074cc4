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
  /** A consumer that joins the group, or that fetches. */
  make(): KafkaConsumer
  warn(error: unknown): void
}

/** A partition that is ours. */
interface Owned {
  readonly partition: number
  readonly name: string
  next: bigint
  /** Records that a process may have died of: they were in hand when the position was written. */
  suspects: number
}

/** It is read when somebody takes it: a fetch brings thousands, and a partition may go before its turn comes. */
interface Unread {
  readonly found: KafkaFound
  readonly partition: string
  readonly redelivered: boolean
}

/** Reads the partitions that the group assigns, each from where the database says; Kafka's own offsets are not used. */
export class KafkaReading {
  readonly #options: KafkaReadingOptions
  readonly #arrived: Waiting<Unread>
  readonly #owned = new Map<string, Owned>()
  readonly #timers = new Timers()
  #revoked: (partitions: readonly string[]) => void = () => {}
  #member: KafkaConsumer | undefined
  #fetcher: KafkaConsumer | undefined
  /** Where partitions were begun here first: a database that was put back may have forgotten their positions. */
  readonly #firsts = new Map<string, bigint>()
  /** What the group assigned and is not begun yet. */
  #begin: number[] = []
  #working: Promise<void> | undefined
  #failure: { readonly error: unknown } | undefined
  #closed = false
  /** The topic's own id, and what the names of its partitions end in. */
  #life: { readonly id: string; readonly suffix: string } | undefined
  /** What is known of the topic may be old. */
  #isStale = false

  constructor(options: KafkaReadingOptions) {
    this.#options = options
    this.#arrived = new Waiting(options.signal)
  }

  /** Rejects when the topic cannot be had. */
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

  /** A log takes nothing back: it comes again from here. */
  giveBack(deliveries: readonly KafkaDelivery[], delayMs: number): void {
    const given = deliveries.map(({ found, position: { partition } }) => {
      return { found, partition, redelivered: true, owned: this.#owned.get(partition) }
    })
    this.#timers.after(delayMs, () => {
      // Where its partition was begun anew meanwhile it comes in its turn: behind it would be what is not read yet.
      this.#arrived.pushAll(given.filter(({ partition, owned }) => owned && this.#owned.get(partition) === owned))
    })
  }

  /** These are begun anew, from where the database says then. */
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
    // Leaving tells the others at once; a server that is away cannot be told.
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

  /** Another member of the group, when there is none. */
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

  /** What stays ours goes on where it is: everything before is in the consumer's hands. */
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

  /** New partitions begin where the database says, or at the topic's own begin or end. */
  async #seek(): Promise<void> {
    const begin = this.#begin
    if (begin.length === 0) return
    const known = await this.#options.positions.read(begin.map((partition) => this.#nameOf(partition)))
    const fresh = begin.filter((partition) => !known.has(this.#nameOf(partition)))
    const ends = fresh.length > 0 ? await this.#ends(fresh, this.#options.from) : new Map<number, bigint>()
    // The group may have thought better of it meanwhile.
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

  /** The topic as it is; where it is another one than before, its partitions are begun anew or nothing is read. */
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
      // One partition after the other, the last would wait for all the others.
      this.#arrived.pushAll(inTurn(partitionsIn(fetched).map((partition) => this.#take(asked, partition))))
    } catch (error) {
      if (!isKafkaError(error, 'OFFSET_OUT_OF_RANGE')) throw error
      await this.#skipDeleted(asked, error)
    }
  }

  #take(asked: readonly Owned[], fetched: KafkaFetchedPartition): Unread[] {
    const owned = asked.find(({ partition }) => partition === fetched.partitionIndex)
    // It may have gone to somebody else meanwhile.
    if (!owned || this.#owned.get(owned.name) !== owned) return []
    const { found, next } = committedIn(fetched, owned.next)
    owned.next = next
    return found.map((one) => ({ found: one, partition: owned.name, redelivered: owned.suspects-- > 0 }))
  }

  /** The topic's retention was faster than we are: what is gone is told, and reading goes on. */
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

/** The answer that a refusal came in: the client has it on the error, or on one inside. */
function findResponse(error: unknown): { readonly response?: KafkaFetched } {
  const { response, errors } = (error ?? {}) as { response?: KafkaFetched; errors?: readonly unknown[] }
  if (response) return { response }
  for (const inner of errors ?? []) {
    const found = findResponse(inner)
    if (found.response) return found
  }
  return {}
}
