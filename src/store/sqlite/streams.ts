import type { StoredChunk, Streams } from '../streams.ts'
import type { Row } from '../store.ts'
import type { Reader } from './reader.ts'
import { holds } from './step.ts'
import type { Writer } from './writer.ts'

// A chunk that is already there was written by this attempt, whose reply was lost.
const APPEND = `insert into effectively_once_chunk (id, life, start, body) values (?, cast(? as integer), ?, ?)
  on conflict do nothing`

/** The sizes are summed first, so that only the bodies of this answer are read. */
const READ = `with w as (
    select rowid as no, start, sum(size) over (order by start) - size as before
      from (select rowid, start, length(body) as size from effectively_once_chunk
        where id = ?1 and life = cast(?2 as integer) and start >= coalesce((select max(start) from effectively_once_chunk
          where id = ?1 and life = cast(?2 as integer) and start <= ?3), ?3) order by start limit ?5)
  )
  select w.start, c.body from w join effectively_once_chunk c on c.rowid = w.no where w.before < ?4 order by w.start`

/** The most chunks of one answer. */
const ROWS_MAX = 256

/** Recorded streams on SQLite. Under the writer's lock, no attempt takes over between the check and the insert. */
export function sqliteStreams({ writer, reader }: { writer: Writer; reader: Reader }): Streams {
  return {
    append: ({ id, token, life, start, bytes }) =>
      writer.write((turn) => {
        if (!holds(turn, { id, token })) return false
        turn.run(APPEND, [id, life, start, bytes])
        return true
      }),
    read: async ({ id, life, from, bytes }) => (await reader.all(READ, [id, life, from, bytes, ROWS_MAX])).map(chunkOf),
  }
}

function chunkOf(row: Row): StoredChunk {
  return { start: Number(row['start']), bytes: row['body'] as Uint8Array }
}
