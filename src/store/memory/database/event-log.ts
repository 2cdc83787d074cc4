import { isOrdered } from '../../ordered.ts'
import type { SentEventRow } from './rows.ts'

/**
 * The committed events of each shard in the order of their sequence numbers. Like the table, the log is append-only.
 */
export class EventLog {
  private readonly shards = new Map<number, SentEventRow[]>()
  private readonly heads = new Map<string, string>()

  add(row: SentEventRow): void {
    if (isOrdered(row)) this.heads.set(headKey(row), row.id)
    const log = this.shards.get(row.shard)
    if (log === undefined) return void this.shards.set(row.shard, [row])
    let i = log.length
    // A transaction that drew its sequence number outside the lock may insert its event late.
    while (i > 0 && (log[i - 1] as SentEventRow).seq > row.seq) i--
    if (i === log.length) log.push(row)
    else log.splice(i, 0, row)
  }

  /** The id of the last ordered event of an aggregate. The shard also identifies the namespace of the aggregate. */
  head(of: Pick<SentEventRow, 'shard' | 'aggregateId'>): string | null {
    return this.heads.get(headKey(of)) ?? null
  }

  after(shard: number, cursor: number, limit: number): readonly SentEventRow[] {
    const log = this.shards.get(shard)
    if (log === undefined) return []
    const from = placeOf(log, cursor + 1)
    return log.slice(from, from + limit)
  }

  find(shard: number, seq: number): SentEventRow | undefined {
    const log = this.shards.get(shard) ?? []
    const row = log[placeOf(log, seq)]
    return row?.seq === seq ? row : undefined
  }

  /** An erasure removes the data of an event, and leaves its place. */
  replace(row: SentEventRow): void {
    const log = this.shards.get(row.shard) ?? []
    log[placeOf(log, row.seq)] = row
  }

  all(): SentEventRow[] {
    return [...this.shards.values()].flat().sort((a, b) => a.seq - b.seq)
  }
}

const headKey = ({ shard, aggregateId }: Pick<SentEventRow, 'shard' | 'aggregateId'>): string =>
  `${shard} ${aggregateId}`

/** The index of the first event whose sequence number is at least `seq`. */
function placeOf(log: readonly SentEventRow[], seq: number): number {
  let low = 0
  let high = log.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((log[middle] as SentEventRow).seq < seq) low = middle + 1
    else high = middle
  }
  return low
}
