import { ERRORS, isOnceError } from '../../errors.ts'
import {
  RERUNS_MAX,
  WRITER_ALONE_TURNS,
  WRITER_HOLD_MS_MAX,
  WRITER_HOLD_MS_WARN,
  WRITER_QUEUE_MAX,
  WRITER_SHARED_MS_MAX,
  WRITER_SHARED_TURNS_MAX,
  WRITER_WAIT_MS_MAX,
} from '../../limits.ts'
import type { Client, OpenFile } from './client.ts'
import { Connection } from './connection.ts'
import { storeFailure } from './failure.ts'
import type { BusyRetry } from './busy-retry.ts'
import { CommitGroup } from './commit-group.ts'
import { Queue } from './queue.ts'
import { Turn } from './turn.ts'

export interface WriterLimits {
  readonly queueMax: number
  readonly waitMsMax: number
  readonly holdMsWarn: number
  readonly holdMsMax: number
  /** How many turns may share one commit. */
  readonly sharedTurnsMax: number
  /** How long a shared commit accepts more turns after its first one, and how long each turn may take. */
  readonly sharedMsMax: number
}

const LIMITS: WriterLimits = {
  queueMax: WRITER_QUEUE_MAX,
  waitMsMax: WRITER_WAIT_MS_MAX,
  holdMsWarn: WRITER_HOLD_MS_WARN,
  holdMsMax: WRITER_HOLD_MS_MAX,
  sharedTurnsMax: WRITER_SHARED_TURNS_MAX,
  sharedMsMax: WRITER_SHARED_MS_MAX,
}

/** The only connection that writes, one turn at a time. Turns that are already waiting share one commit. */
export class Writer {
  readonly #retry: BusyRetry
  readonly #limits: WriterLimits
  readonly #connection: Connection
  readonly #queue: Queue
  #warned = false
  #group: CommitGroup | undefined
  /** This many more turns commit alone, because a slow turn made others wait. */
  #alone = 0

  constructor(retry: BusyRetry, library: () => Promise<OpenFile>, limits: Partial<WriterLimits> = {}) {
    this.#retry = retry
    this.#limits = { ...LIMITS, ...limits }
    this.#connection = new Connection(retry, 'writes', library)
    this.#queue = new Queue(retry.clock, retry.eventLoop, this.#limits.queueMax)
  }

  /**
   * Opens an immediate transaction when it is the caller's turn. The caller ends the turn, or the writer does after the
   * deadline.
   */
  async take({ deadlineMs = Infinity, urgent }: { deadlineMs?: number; urgent?: boolean } = {}): Promise<Turn> {
    const { clock } = this.#retry
    const waitMs = Math.min(this.#limits.waitMsMax, deadlineMs)
    const until = clock.now() + waitMs
    await this.#queue.enter({ waitMs, urgent })
    try {
      const client = await this.#connection.client()
      const group = (this.#group ??= new CommitGroup(client, this.#retry))
      await group.enter(until)
      return this.#turn(client, group, Math.min(this.#limits.holdMsMax, deadlineMs))
    } catch (error) {
      await this.#next()
      throw storeFailure(error, this.#retry.file)
    }
  }

  /**
   * One short transaction of our own: all of `work` or nothing. If another turn made SQLite roll back, it runs again.
   */
  async write<T>(work: (turn: Turn) => T, { urgent }: { urgent?: boolean } = {}): Promise<T> {
    for (let lost = 0; ; lost++) {
      const turn = await this.take(urgent === undefined ? {} : { urgent })
      try {
        const result = work(turn)
        await turn.commit()
        return result
      } catch (error) {
        if (lost >= RERUNS_MAX || !isOnceError(error, 'ONCE_CONFLICT')) throw error
      } finally {
        await turn.rollback()
      }
    }
  }

  async close(): Promise<void> {
    await this.#queue.close()
    await this.#connection.close()
  }

  #turn(client: Client, group: CommitGroup, holdMs: number): Turn {
    return new Turn({
      client,
      group,
      retry: this.#retry,
      holdMs,
      warnMs: this.#limits.holdMsWarn,
      warn: () => this.#warn(),
      leave: (heldMs) => {
        this.#alone = Math.max(this.#alone - 1, heldMs > this.#limits.sharedMsMax ? WRITER_ALONE_TURNS : 0)
        void this.#next()
      },
    })
  }

  /** The next turn may share the commit with the finished turns. If it may not, they are committed first. */
  async #next(): Promise<void> {
    const group = this.#group
    if (group !== undefined && group.size > 0 && !this.#mayShare(group)) await group.commit()
    this.#queue.leave()
  }

  #mayShare(group: CommitGroup): boolean {
    return (
      this.#queue.waiting > 0 &&
      this.#alone === 0 &&
      group.size < this.#limits.sharedTurnsMax &&
      group.ageMs < this.#limits.sharedMsMax &&
      group.shareable
    )
  }

  #warn(): void {
    if (this.#warned) return
    this.#warned = true
    const message = `${ERRORS.ONCE_WRITER_HELD.message} (over ${this.#limits.holdMsWarn} ms, "${this.#retry.file}")`
    process.emitWarning(message, { type: 'EffectivelyOnce', code: 'ONCE_WRITER_HELD' })
  }
}
