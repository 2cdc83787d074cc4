import type { Retention, SweepParams, Swept } from '../store.ts'
import { AnswerPartitions } from './answer-partitions.ts'
import type { PgDriver } from './driver/driver.ts'
import { told } from './errors.ts'
import { NO_EVENTS, PostgresOutboxRetention } from './outbox-retention.ts'
import { suspendLapsedSql, sweepRecordsSql } from './sql/retention.ts'
import { SweepLease, type SweepHeld } from './sweep-lease.ts'
import { SweepParts } from './sweep-parts.ts'
import { SweepTasks } from './sweep-tasks.ts'

/** Removes expired data by the database's clock, without an index on the hot path and without blocking other sessions. */
export class PostgresRetention<Tx> implements Retention {
  readonly partitions: AnswerPartitions<Tx>
  readonly #driver: PgDriver<Tx>
  readonly #schema: string
  readonly #lease: SweepLease<Tx>
  readonly #parts: SweepParts<Tx>
  readonly #outbox: PostgresOutboxRetention<Tx>

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
    this.partitions = new AnswerPartitions(driver, schema)
    this.#lease = new SweepLease(driver, schema, 'records')
    this.#parts = new SweepParts(driver, schema)
    this.#outbox = new PostgresOutboxRetention(driver, schema)
  }

  sweep(params: SweepParams): Promise<Swept> {
    return told(
      this.#schema,
      async () => (await this.#lease.hold(params.replayForMs, (held) => this.#sweep(params, held))) ?? SKIPPED,
    )
  }

  async #sweep({ limit, resendForMs = Infinity, signal }: SweepParams, held: SweepHeld): Promise<Swept> {
    const tasks = new SweepTasks(this.#schema)
    const others = held.owner ? null : tasks
    await tasks.do(undefined, () => this.partitions.make(held.replayForMs, others))
    let records = 0
    const removed = await tasks.do(true, () =>
      this.#parts.sweep('record', limit, signal, async (range, left) => {
        const gone = await this.#count(sweepRecordsSql(this.#schema), [...range, left])
        records += gone
        return gone
      }),
    )
    const suspended = await tasks.do(0, () => this.#count(suspendLapsedSql(this.#schema), [limit]))
    const cleared = await tasks.do(true, () => this.partitions.removeStrays(limit))
    const { partitionsDropped, partitionsBusy } = await tasks.do(NO_PARTITIONS, () =>
      this.partitions.drop(others, signal),
    )
    const outbox = await tasks.do(NO_EVENTS, () => this.#outbox.sweep({ resendForMs, limit, signal, others }))
    return {
      records,
      suspended,
      events: outbox.events,
      miscounted: outbox.miscounted,
      partitionsDropped: partitionsDropped + outbox.segmentsDropped,
      partitionsBusy: partitionsBusy + outbox.segmentsBusy,
      finished: removed && cleared,
      skipped: false,
      troubles: tasks.troubles,
    }
  }

  async #count(text: string, values: readonly unknown[]): Promise<number> {
    const [row] = await this.#driver.query({ name: '', text, values })
    return Number(row?.['rows'] ?? 0)
  }
}

const NO_PARTITIONS = { partitionsDropped: 0, partitionsBusy: 0 }

const SKIPPED: Swept = {
  ...NO_PARTITIONS,
  records: 0,
  suspended: 0,
  events: 0,
  miscounted: [],
  finished: true,
  skipped: true,
  troubles: [],
}
