import type { Delivery, Position, Positions, ReceiveParams, SourceFeatures, Subscription } from './source.ts'
import { Timers } from './timers.ts'
import { untilRung, Waiting } from './waiting.ts'

/** How often a standby process checks whether it is its turn. */
const LOOK_MS_MAX = 1_000

/** Decides which process of a consumer reads. Two may read for a while, which costs work but breaks nothing. */
export interface Turn {
  /** How long a turn lasts unless `hold` renews it. */
  readonly keptMs: number
  /** Takes a free turn, or renews our own. False: another process has the turn. */
  hold(): Promise<boolean>
  leave(): Promise<void>
}

export interface LogDelivery extends Delivery {
  readonly position: Position
}

/** A stream of a broker, read from any position on. */
export interface Log {
  /**
   * Returns messages in order, as soon as there is one. Returns none when the time is over. `suspects`: this many of the
   * first messages may have killed a process.
   */
  read(from: bigint, params: LogParams): Promise<readonly LogDelivery[]>
  close(): Promise<void>
}

export interface LogParams extends ReceiveParams {
  /** The name of the partition in the positions. */
  readonly partition: string
  readonly suspects: number
}

/** The stream was recreated, and the positions belong to the old one. */
export class LogRecreated extends Error {}

export interface LogReadingOptions {
  readonly log: Log
  readonly turn: Turn
  /** The name of the partition in the positions. A stream has one. */
  partition(): Promise<string>
  readonly prefetch: number
  readonly positions: Positions
  readonly signal: AbortSignal
}

/**
 * Reads a stream in its own order. One process reads it, from the position that was committed with the effects. The others
 * stand by. A reader has every earlier message in hand, or knows that it was applied. So even two readers at a time keep
 * the order: each runs a message after the earlier ones, and the inbox shows which were applied.
 */
export class LogReading {
  readonly #options: LogReadingOptions
  readonly #arrived: Waiting<LogDelivery>
  readonly #timers = new Timers()
  #revoked: (partitions: readonly string[]) => void = () => {}
  /** The next position to read. Undefined: it is not our turn. */
  #next: bigint | undefined
  #partition = ''
  #suspects = 0
  #heldAt = 0
  #closed = false

  constructor(options: LogReadingOptions) {
    this.#options = options
    this.#arrived = new Waiting(options.signal)
  }

  onRevoked(callback: (partitions: readonly string[]) => void): void {
    this.#revoked = callback
  }

  async next(params: ReceiveParams): Promise<readonly LogDelivery[]> {
    const { signal } = this.#options
    const until = performance.now() + params.waitMs
    const isOver = (): boolean => this.#closed || params.signal.aborted || signal.aborted
    while (!isOver()) {
      if (this.#arrived.any) return this.#arrived.take(params.max, 0, params.signal)
      const leftMs = until - performance.now()
      if (leftMs <= 0) break
      if (this.#next === undefined && !(await this.#takeTurn())) {
        await untilRung(Math.min(leftMs, this.#lookMs), [params.signal, signal], () => {})
        continue
      }
      const found = await this.#read({ ...params, waitMs: Math.min(leftMs, this.#options.turn.keptMs) })
      if (found.length > 0) return found
    }
    return []
  }

  /** A log cannot take a message back, so it is delivered again from here. */
  giveBack(deliveries: readonly LogDelivery[], delayMs: number): void {
    this.#timers.after(delayMs, () => {
      if (this.#next !== undefined) this.#arrived.push(...deliveries)
    })
  }

  again(partitions: readonly string[]): void {
    if (this.#next !== undefined && partitions.includes(this.#partition)) this.#lose()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#timers.clear()
    this.#arrived.end()
    const { log, turn } = this.#options
    const left = this.#next === undefined ? undefined : turn.leave()
    this.#next = undefined
    await Promise.allSettled([left, log.close()])
  }

  get #lookMs(): number {
    return Math.min(LOOK_MS_MAX, this.#options.turn.keptMs / 4)
  }

  async #read(params: ReceiveParams): Promise<readonly LogDelivery[]> {
    const from = this.#next
    if (from === undefined) return []
    const found = await this.#options.log
      .read(from, { ...params, partition: this.#partition, suspects: this.#suspects })
      .catch((error: unknown) => {
        // The stream was recreated under the same name. The process with the next turn checks that.
        if (error instanceof LogRecreated) this.#lose()
        throw error
      })
    // Meanwhile another process may have the turn, or we may have it again from another position.
    if (this.#next !== from) return []
    const last = found.at(-1)
    if (last) this.#next = BigInt(last.position.next)
    this.#suspects = Math.max(0, this.#suspects - found.length)
    return found
  }

  async #takeTurn(): Promise<boolean> {
    const { turn, positions, prefetch } = this.#options
    const at = performance.now()
    if (!(await turn.hold())) return false
    const partition = await this.#options.partition()
    this.#partition = partition
    const known = await positions.read([partition])
    if (this.#closed) return false
    this.#heldAt = at
    const next = known.get(partition)
    this.#next = BigInt(next ?? 0)
    // Also without a known position, because the first message may have killed the last reader.
    this.#suspects = prefetch
    this.#keepTurn()
    return true
  }

  #keepTurn(): void {
    const { turn } = this.#options
    this.#timers.after(turn.keptMs / 3, () => {
      const at = performance.now()
      turn.hold().then(
        (isOurs) => {
          if (this.#closed || this.#next === undefined) return
          if (!isOurs) return this.#lose()
          this.#heldAt = at
          this.#keepTurn()
        },
        () => {
          if (this.#closed || this.#next === undefined) return
          if (performance.now() - this.#heldAt > turn.keptMs) this.#lose()
          else this.#keepTurn()
        },
      )
    })
  }

  #lose(): void {
    this.#next = undefined
    // Returned messages count too, because unread messages come after them.
    this.#timers.clear()
    this.#arrived.drop(() => true)
    this.#revoked([this.#partition])
  }
}

export const LOG_FEATURES: SourceFeatures = {
  orders: true,
  counts: false,
  marksRedelivered: true,
  delays: true,
  positions: true,
}

export function logSubscription(reading: LogReading): Subscription {
  return {
    receive: (params) => reading.next(params),
    // Nothing to do: the position was stored with the effect.
    ack: async () => {},
    giveBack: async (deliveries, { delayMs }) => reading.giveBack(deliveries as readonly LogDelivery[], delayMs),
    onRevoked: (callback) => reading.onRevoked(callback),
    again: (partitions) => reading.again(partitions),
    close: () => reading.close(),
  }
}
