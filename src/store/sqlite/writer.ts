import { ERRORS } from '../../errors.ts'
import { WRITER_HOLD_MS_MAX, WRITER_HOLD_MS_WARN, WRITER_QUEUE_MAX, WRITER_WAIT_MS_MAX } from '../../limits.ts'
import type { Client, OpenFile } from './client.ts'
import { Connection } from './connection.ts'
import { storeFailure } from './failure.ts'
import { type BusyRetry, whileBusy } from './busy-retry.ts'
import { Queue } from './queue.ts'
import { Turn } from './turn.ts'

export interface WriterLimits {
  readonly queueMax: number
  readonly waitMsMax: number
  readonly holdMsWarn: number
  readonly holdMsMax: number
}

const LIMITS: WriterLimits = {
  queueMax: WRITER_QUEUE_MAX,
  waitMsMax: WRITER_WAIT_MS_MAX,
  holdMsWarn: WRITER_HOLD_MS_WARN,
  holdMsMax: WRITER_HOLD_MS_MAX,
}

/** The only connection that writes, one transaction at a time. */
export class Writer {
  readonly #retry: BusyRetry
  readonly #limits: WriterLimits
  readonly #connection: Connection
  readonly #queue: Queue
  #warned = false
  /** The last turn could not roll back. */
  #unfinished = false

  constructor(retry: BusyRetry, library: () => Promise<OpenFile>, limits: Partial<WriterLimits> = {}) {
    this.#retry = retry
    this.#limits = { ...LIMITS, ...limits }
    this.#connection = new Connection(retry, 'writes', library)
    this.#queue = new Queue(retry.clock, retry.eventLoop, this.#limits.queueMax)
  }

  /** Opens an immediate transaction when it is our turn. Whoever takes a turn ends it; past its deadline we do. */
  async take({ deadlineMs = Infinity, urgent }: { deadlineMs?: number; urgent?: boolean } = {}): Promise<Turn> {
    const { clock } = this.#retry
    const waitMs = Math.min(this.#limits.waitMsMax, deadlineMs)
    const until = clock.now() + waitMs
    await this.#queue.enter({ waitMs, urgent })
    try {
      const client = await this.#connection.client()
      if (this.#unfinished) client.run('rollback')
      this.#unfinished = false
      await whileBusy(this.#retry, until, () => client.run('begin immediate'))
      return this.#turn(client, Math.min(this.#limits.holdMsMax, deadlineMs))
    } catch (error) {
      this.#queue.leave()
      throw storeFailure(error, this.#retry.file)
    }
  }

  /** One short transaction of our own: all of `work`, or nothing of it. */
  async write<T>(work: (turn: Turn) => T, { urgent }: { urgent?: boolean } = {}): Promise<T> {
    const turn = await this.take(urgent === undefined ? {} : { urgent })
    try {
      const result = work(turn)
      await turn.commit()
      return result
    } finally {
      turn.rollback()
    }
  }

  async close(): Promise<void> {
    await this.#queue.close()
    await this.#connection.close()
  }

  #turn(client: Client, holdMs: number): Turn {
    return new Turn({
      client,
      retry: this.#retry,
      holdMs,
      warnMs: this.#limits.holdMsWarn,
      warn: () => this.#warn(),
      leave: (unfinished) => {
        this.#unfinished = unfinished
        this.#queue.leave()
      },
    })
  }

  #warn(): void {
    if (this.#warned) return
    this.#warned = true
    const message = `${ERRORS.ONCE_WRITER_HELD.message} (over ${this.#limits.holdMsWarn} ms, "${this.#retry.file}")`
    process.emitWarning(message, { type: 'EffectivelyOnce', code: 'ONCE_WRITER_HELD' })
  }
}
