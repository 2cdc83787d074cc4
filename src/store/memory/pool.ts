import { onceError } from '../../errors.ts'
import { systemClock } from '../../platform/clock.ts'
import type { Clock } from '../../platform/clock.ts'
import { Connection } from './database/connection.ts'
import type { Step } from './database/connection.ts'
import type { MemoryDatabase } from './database/database.ts'

export interface PoolOptions {
  readonly database: MemoryDatabase
  readonly step?: Step | null
  /** The maximum number of connections in use. */
  readonly size?: number
  /** How long a caller waits for a connection. */
  readonly waitMs?: number
  readonly clock?: Clock
  /** Called when a caller has to wait for a connection. */
  readonly onWait?: () => void
}

/** The connections of one process. */
export class Pool {
  readonly database: MemoryDatabase
  readonly used: Set<Connection> = new Set()
  private readonly step: Step | null
  private readonly size: number
  private readonly waitMs: number
  private readonly clock: Clock
  private readonly onWait: () => void
  private readonly waiting: ((connection: Connection) => void)[] = []

  constructor(options: PoolOptions) {
    this.database = options.database
    this.step = options.step ?? null
    this.size = options.size ?? Number.POSITIVE_INFINITY
    this.waitMs = options.waitMs ?? 5_000
    this.clock = options.clock ?? systemClock
    this.onWait = options.onWait ?? (() => undefined)
  }

  take(): Connection | Promise<Connection> {
    if (this.used.size < this.size) return this.open()
    this.onWait()
    return new Promise((resolve, reject) => {
      const waiter = (connection: Connection): void => {
        cancel()
        resolve(connection)
      }
      const cancel = this.clock.after(
        this.waitMs,
        () => {
          this.waiting.splice(this.waiting.indexOf(waiter), 1)
          reject(onceError('ONCE_STORE_UNAVAILABLE', { detail: 'All connections are in use' }))
        },
        true,
      )
      this.waiting.push(waiter)
    })
  }

  /** A connection outside the pool's limit, because heartbeats must not wait for operations. */
  aside(): Connection {
    return new Connection(this.database, this.step)
  }

  give(connection: Connection): void {
    if (!this.used.delete(connection)) return
    const next = this.waiting.shift()
    if (next !== undefined) next(this.open())
  }

  private open(): Connection {
    const connection = new Connection(this.database, this.step)
    this.used.add(connection)
    return connection
  }
}
