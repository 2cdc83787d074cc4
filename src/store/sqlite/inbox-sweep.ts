import type { SweptInbox } from '../inbox.ts'
import { NOW } from './migrations.ts'
import type { Writer } from './writer.ts'

/** Rows per transaction, so that the sweeper never holds the writer for long. */
const CHUNK = 250

// With one writer, a mark can replace its row in one step.
const OLD = `select i.id, i.at + c.remember_ms as forget_at, c.remember_ms > c.inbox_ms as remembered
  from effectively_once_consumer c cross join effectively_once_inbox i
  where i.consumer = c.name and i.at < ${NOW} - c.inbox_ms limit ?`
const MARK = 'insert into effectively_once_mark (id, forget_at) values (?, ?) on conflict (id) do nothing'
const UNROW = 'delete from effectively_once_inbox where id = ?'
const FORGET = `delete from effectively_once_mark where id in
  (select id from effectively_once_mark where forget_at < ${NOW} order by forget_at limit ?)`
// A letter that was not applied stays while its aggregate has a parked letter, because later messages look for it.
const LETTERS = `delete from effectively_once_dead_letter where seq in (select d.seq from effectively_once_dead_letter d
  join effectively_once_consumer c on c.name = d.consumer
  where d.state <> 1 and coalesce(d.settled_at, d.parked_at) < ${NOW} - c.letters_ms
    and (d.state = 3 or d.aggregate is null or not exists (select 1 from effectively_once_dead_letter p
      where p.consumer = d.consumer and p.source = d.source and p.aggregate = d.aggregate and p.state = 1)) limit ?)`
const TRIES = `delete from effectively_once_attempt where id in (select a.id from effectively_once_attempt a
  join effectively_once_consumer c on c.name = a.consumer
  where a.updated_at < ${NOW} - max(c.remember_ms, c.inbox_ms) limit ?)`

export async function sweepInbox(writer: Writer, limit: number, signal: AbortSignal | undefined): Promise<SweptInbox> {
  const swept = { marked: 0, rows: 0, marks: 0, letters: 0 }
  let finished = true
  const chunks = async (work: (chunk: number) => Promise<number>): Promise<number> => {
    let done = 0
    for (;;) {
      if (signal?.aborted || done >= limit) {
        finished = false
        return done
      }
      const chunk = Math.min(CHUNK, limit - done)
      const count = await work(chunk)
      done += count
      if (count < chunk) return done
    }
  }
  swept.rows = await chunks(async (chunk) => {
    const done = await writer.write((turn) => {
      let marked = 0
      const old = turn.all(OLD, [chunk])
      for (const row of old) {
        if (Number(row['remembered'])) marked += turn.run(MARK, [String(row['id']), Number(row['forget_at'])])
        turn.run(UNROW, [String(row['id'])])
      }
      return { rows: old.length, marked }
    })
    swept.marked += done.marked
    return done.rows
  })
  swept.marks = await chunks((chunk) => writer.write((turn) => turn.run(FORGET, [chunk])))
  swept.letters = await chunks((chunk) => writer.write((turn) => turn.run(LETTERS, [chunk])))
  await chunks((chunk) => writer.write((turn) => turn.run(TRIES, [chunk])))
  return { ...swept, finished }
}
