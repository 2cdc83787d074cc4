import { onceError } from '../../errors.ts'
import { ERASED_FINGERPRINT } from '../../lifecycle/record.ts'
import { SWEEP_BLOCKS } from '../../limits.ts'
import type {
  Aggregate,
  ErasedEvents,
  ErasedLetters,
  ErasedOperations,
  EraseEventsParams,
  EraseLettersParams,
  EraseOperationsParams,
  Erasure,
  PendingEvent,
} from '../erasure.ts'
import type { Row } from '../store.ts'
import { arrayLiteral, arraysOf } from './array-literal.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { told } from './errors.ts'
import { numberOrNull } from './outbox-rows.ts'
import * as sql from './sql/erase.ts'

/** Erasure on PostgreSQL, without an index of its own. */
export class PostgresErasure<Tx> implements Erasure {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  operations({ scope, id, after, limit, dryRun }: EraseOperationsParams): Promise<ErasedOperations> {
    return told(this.#schema, async () => {
      if (id !== null) {
        const lock = sql.lockErasedByIdSql(this.#schema, !dryRun)
        return { ...(await this.#erase(lock, [scope, id], dryRun)).part, next: null }
      }
      const place = after === null ? await this.#start() : (JSON.parse(after) as Place)
      if (place.block >= place.end) return NOTHING
      const past = Math.min(place.block + SWEEP_BLOCKS, place.end)
      const range = [scope, `(${place.block},${place.offset})`, `(${past},0)`, limit]
      const { last, part } = await this.#erase(sql.lockErasedSql(this.#schema, !dryRun), range, dryRun)
      const found = part.ids.length + part.busy.length
      const next = found === limit && last ? placeOf(last, place.end) : { block: past, offset: 0, end: place.end }
      return { ...part, next: next.block >= place.end ? null : JSON.stringify(next) }
    })
  }

  async events({ shard, aggregates, after, limit, dryRun }: EraseEventsParams): Promise<ErasedEvents> {
    const values = [shard, after, limit, ...named(aggregates)]
    const rows = await this.#query(sql.eraseEventsSql(this.#schema, !dryRun), values)
    return {
      erased: Number(rows[0]?.['erased']),
      pending: rows.flatMap((row) => (row['id'] === null ? [] : pendingOf(row))),
      next: nextOf(rows[0], limit),
    }
  }

  async letters(params: EraseLettersParams): Promise<ErasedLetters> {
    const { namespace, tenant, aggregates, after, limit, dryRun } = params
    const values = [String(namespace), tenant, ...named(aggregates), after, limit]
    const rows = await this.#query(sql.eraseLettersSql(this.#schema, !dryRun), values)
    return {
      erased: Number(rows[0]?.['erased']),
      discarded: Number(rows[0]?.['discarded']),
      redriving: rows.flatMap((row) =>
        row['id'] === null ? [] : { id: String(row['id']), redrive: numberOrNull(row['redrive']) },
      ),
      next: nextOf(rows[0], limit),
    }
  }

  async writers(): Promise<readonly string[]> {
    const rows = await this.#query(sql.recordWritersSql(this.#schema), [])
    return rows.map((row) => String(row['id']))
  }

  async #start(): Promise<Place> {
    const [row] = await this.#driver.query(statement(sql.recordBlocksSql(this.#schema), []))
    return { block: 0, offset: 0, end: Number(row?.['blocks']) }
  }

  /** The records are locked first. The second statement sees everything that was committed with them. */
  async #erase(
    lock: string,
    params: readonly unknown[],
    dryRun: boolean,
  ): Promise<{ readonly part: Omit<ErasedOperations, 'next'>; readonly last: string | undefined }> {
    const { connection, rows } = await this.#driver.begin(statement(lock, params))
    const fresh = rows.filter((row) => row['fresh'] === true).map((row) => String(row['id']))
    try {
      if (dryRun || fresh.length === 0) await connection.rollback()
      else {
        const { fingerprint, fingerprintVersion } = ERASED_FINGERPRINT
        const values = [arrayLiteral(fresh), fingerprint, fingerprintVersion]
        const erase = statement(sql.eraseRecordsSql(this.#schema), values)
        if ((await connection.commit(erase)) !== 'committed') throw onceError('ONCE_ROLLED_BACK')
      }
    } catch (error) {
      await connection.rollback()
      throw error
    }
    const part = {
      erased: fresh.length,
      ids: rows.filter((row) => row['free'] === true).map((row) => String(row['id'])),
      busy: rows.filter((row) => row['free'] !== true).map((row) => String(row['id'])),
    }
    return { part, last: rows.at(-1)?.['at'] as string | undefined }
  }

  #query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return told(this.#schema, () => this.#driver.query(statement(text, values)))
  }
}

/** A place in the table, and the number of blocks that the table had when the erasure began. */
interface Place {
  readonly block: number
  readonly offset: number
  readonly end: number
}

const NOTHING: ErasedOperations = { erased: 0, ids: [], busy: [], next: null }

function placeOf(tid: string, end: number): Place {
  const [block = 0, offset = 0] = tid.slice(1, -1).split(',').map(Number)
  return { block, offset, end }
}

function statement(text: string, values: readonly unknown[]): PgStatement {
  return { name: '', text, values }
}

function named(aggregates: readonly Aggregate[]): string[] {
  return arraysOf(aggregates, 'type', 'id')
}

function pendingOf(row: Row): PendingEvent {
  const state = row['state'] as PendingEvent['state']
  return { id: String(row['id']), type: String(row['type']), aggregate: String(row['aggregateid']), state }
}

function nextOf(row: Row | undefined, limit: number): number | null {
  return Number(row?.['read']) < limit ? null : numberOrNull(row?.['last'])
}
