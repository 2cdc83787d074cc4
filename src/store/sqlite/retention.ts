import type { Retention, SweepParams, Swept } from '../store.ts'
import { suspendOverdue } from './lease.ts'
import { NOW } from './migrations.ts'
import { sweepEvents } from './outbox-retention.ts'
import type { Turn } from './turn.ts'
import type { Writer } from './writer.ts'

/** Rows per transaction, so that the sweeper never holds the writer for long. */
const CHUNK = 250

// Only completed records: a record in progress or unknown is never removed, however old it is.
const FORGOTTEN = `delete from effectively_once_record where id in
  (select id from effectively_once_record where state = 2 and forget_at <= ${NOW} order by forget_at limit ?) returning id`

// Answers whose day is over, and that no live record points to.
const PAST_ANSWERS = `delete from effectively_once_answer where rowid in (select a.rowid from effectively_once_answer a
  where a.day < strftime('%Y-%m-%d', 'now') and not exists (select 1 from effectively_once_record r
    where r.id = a.id and r.expires_at > ${NOW}) limit ?)`

/** Sweepers do not block each other. Rows are found by an index, and two sweepers take turns at the one writer. */
const NOTHING_ELSE = { miscounted: [], partitionsDropped: 0, partitionsBusy: 0, skipped: false, troubles: [] } as const

type Task = 'records' | 'suspended' | 'answers' | 'events'

export function sqliteRetention(writer: Writer): Retention {
  return { sweep: (params) => sweep(writer, params) }
}

async function sweep(writer: Writer, { limit, resendForMs, signal }: SweepParams): Promise<Swept> {
  const done: Record<Task, number> = { records: 0, suspended: 0, answers: 0, events: 0 }
  let left = limit
  let finished = true
  for (const task of ['suspended', 'records', 'answers', 'events'] as const) {
    if (task === 'events' && resendForMs === undefined) continue
    for (let more = true; more;) {
      if (left <= 0 || signal?.aborted) {
        finished = false
        break
      }
      const chunk = Math.min(left, CHUNK)
      const count = await writer.write((turn) => TASKS[task](turn, chunk, resendForMs ?? 0))
      done[task] += count
      left -= count
      more = count === chunk
    }
  }
  const { records, suspended, events } = done
  return { records, suspended, events, ...NOTHING_ELSE, finished }
}

const TASKS: Record<Task, (turn: Turn, limit: number, resendForMs: number) => number> = {
  suspended: suspendOverdue,
  events: sweepEvents,
  answers: (turn, limit) => turn.run(PAST_ANSWERS, [limit]),
  records(turn, limit) {
    const ids = turn.all(FORGOTTEN, [limit]).map((row) => row['id'])
    const list = JSON.stringify(ids)
    for (const table of ['answer', 'step', 'recover', 'chunk']) {
      turn.run(`delete from effectively_once_${table} where id in (select value from json_each(?))`, [list])
    }
    return ids.length
  },
}
