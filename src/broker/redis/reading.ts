import { REDIS_CLAIM_MS_MAX } from '../../limits.ts'
import type { RedisCommands } from './client.ts'
import { freshOf, RedisDelivery, type RedisEntry } from './delivery.ts'
import type { RedisGroup } from './group.ts'
import type { ReceiveParams } from '../../source/source.ts'

/** A blocking read counts as lost if its answer is this late. */
const GRACE_MS = 1_000
/** A block of 0 would wait for ever. */
const BLOCK_MS_MIN = 1

/** An entry whose delay is longer than the idle time. */
interface Waiting {
  readonly ids: readonly string[]
  readonly dueAt: number
}

/** Reads new entries on its own connection, and entries that other processes left unsettled or returned. */
export class RedisReading {
  readonly #group: RedisGroup
  readonly #reader: RedisCommands
  readonly #name: string
  readonly #warn: (error: unknown) => void
  readonly #signal: AbortSignal
  readonly #claimEveryMs: number
  #readerId: string | undefined
  #claimAt = 0
  #waiting: Waiting[] = []
  #reads = new Set<Promise<unknown>>()
  #closed = false

  constructor(
    group: RedisGroup,
    reader: RedisCommands,
    options: { readonly name: string; readonly signal: AbortSignal; warn(error: unknown): void },
  ) {
    this.#group = group
    this.#reader = reader
    this.#name = options.name
    this.#signal = options.signal
    this.#warn = (error) => options.warn(error)
    this.#claimEveryMs = Math.min(REDIS_CLAIM_MS_MAX, group.names.idleMs / 2)
    options.signal.addEventListener('abort', () => this.#unblock(), { once: true })
  }

  async start(): Promise<void> {
    // The id is needed only to end a blocking read early. If the server refuses it, a read lasts its full time.
    this.#readerId = await this.#reader.call('CLIENT', 'ID').then(String, () => undefined)
  }

  async next({ max, waitMs, signal }: ReceiveParams): Promise<readonly RedisDelivery[]> {
    const until = performance.now() + waitMs
    signal.addEventListener('abort', this.#unblock)
    try {
      while (!signal.aborted && !this.#signal.aborted && !this.#closed) {
        const claimed = await this.#claimDue(max)
        if (claimed.length > 0) return claimed
        const leftMs = until - performance.now()
        const fresh = await this.#read(max, Math.min(leftMs, this.#claimAt - performance.now()), signal)
        if (fresh.length > 0) return fresh
        if (performance.now() >= until) break
      }
      return []
    } catch (error) {
      // The stream was deleted, and the group with it.
      if (/NOGROUP/.test(String(error))) await this.#group.make()
      throw error
    } finally {
      signal.removeEventListener('abort', this.#unblock)
    }
  }

  /** Returns entries with a delay: their idle time is set so that any member may claim them after the delay. */
  async giveBack(ids: readonly string[], delayMs: number): Promise<void> {
    const { idleMs } = this.#group.names
    const dueAt = performance.now() + delayMs
    await this.#group.touch(ids, Math.max(0, idleMs - delayMs))
    if (delayMs > idleMs) this.#waiting.push({ ids, dueAt })
    else this.#claimAt = Math.min(this.#claimAt, dueAt + 1)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#unblock()
    await Promise.allSettled(this.#reads)
    try {
      await this.#group.leave()
    } finally {
      this.#reader.disconnect()
    }
  }

  async #claimDue(max: number): Promise<RedisDelivery[]> {
    if (performance.now() < this.#claimAt) return []
    await this.#keepWaiting()
    const { entries, lost } = await this.#group.claim(max)
    if (lost > 0) this.#warn(new Error(`${lost} entries of ${this.#name} were trimmed before they were settled`))
    // There may be more entries to claim.
    this.#claimAt = entries.length > 0 ? 0 : performance.now() + this.#claimEveryMs
    for (const { dueAt } of this.#waiting) this.#claimAt = Math.min(this.#claimAt, dueAt + 1)
    return entries.map(({ entry, delivered }) => this.#deliveryOf(entry, delivered))
  }

  /** This process keeps entries with a longer delay. If it dies, they come earlier. */
  async #keepWaiting(): Promise<void> {
    const { idleMs } = this.#group.names
    const now = performance.now()
    const waiting = this.#waiting
    this.#waiting = waiting.filter(({ dueAt }) => dueAt - now > idleMs)
    for (const { ids, dueAt } of waiting) await this.#group.touch(ids, Math.max(0, idleMs - Math.max(0, dueAt - now)))
  }

  async #read(max: number, blockMs: number, signal: AbortSignal): Promise<RedisDelivery[]> {
    if (!this.#reader.isReady()) throw new Error('the connection to Redis is not ready')
    const block = blockMs > 0 ? Math.max(BLOCK_MS_MIN, Math.ceil(blockMs)) : 0
    const read = this.#reader.call(...this.#group.readCommand(max, block)).then((reply) => freshOf(reply))
    const tracked: Promise<unknown> = read.then(
      () => this.#reads.delete(tracked),
      () => this.#reads.delete(tracked),
    )
    this.#reads.add(tracked)
    const entries = await withinTime(read, block + GRACE_MS, signal)
    if (entries === 'late') {
      // If the lost read still returns entries, other members may claim them at once.
      void read.then((late) => this.giveBack(late.map(({ id }) => id), 0)).catch(() => {}) // prettier-ignore
      return []
    }
    return entries.map((entry) => this.#deliveryOf(entry, 1))
  }

  readonly #unblock = (): void => {
    const id = this.#readerId
    if (id !== undefined && this.#reads.size > 0) void this.#group.unblock(id)
  }

  #deliveryOf(entry: RedisEntry, delivered: number): RedisDelivery {
    return new RedisDelivery(entry, {
      stream: this.#group.names.stream,
      name: this.#name,
      delivered,
      redelivered: delivered > 1,
    })
  }
}

async function withinTime<T>(work: Promise<T>, ms: number, signal: AbortSignal): Promise<T | 'late'> {
  let stop = (): void => {}
  const late = new Promise<'late'>((resolve) => {
    // The server ends an aborted read. Wait a moment, so that entries of that read are not delayed.
    const soon = (): void => void setTimeout(() => resolve('late'), 100)
    const timer = setTimeout(() => resolve('late'), ms)
    signal.addEventListener('abort', soon)
    stop = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', soon)
    }
  })
  try {
    return await Promise.race([work, late])
  } finally {
    stop()
  }
}
