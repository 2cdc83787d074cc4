import { setTimeout as pass } from 'node:timers/promises'
import pg from 'pg'
import { effectivelyOnce } from '../../src/index.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { contentOf, type Stream } from './content.ts'
import { startServer, type Memory } from './server.ts'

const CHUNK_BYTES = 32 * 1024
const CHUNKS_PER_MIB = (1024 * 1024) / CHUNK_BYTES
const LOOK_MS = 100

export interface StreamMemory {
  /** What the streams contain together. */
  readonly contentMiB: number
  /** The most memory that the server held, above what it held before. Garbage does not count. */
  readonly grownMiB: number
  /** The same of the whole process, with its garbage. It depends on when V8 collects, so it is only a report. */
  readonly rssGrownMiB: number
  /** Readers whose bytes are not those of the stream. */
  readonly wrong: number
}

/**
 * Produces large streams at once, for clients that read nothing until every stream has ended. A server that keeps what
 * it produced, or what its clients do not take, would need as much memory as the streams contain.
 */
export async function streamMemory(params: {
  readonly database: string
  readonly streams: number
  readonly mibEach: number
  readonly timeoutMs: number
}): Promise<StreamMemory> {
  const { database, streams, mibEach, timeoutMs } = params
  const pool = new pg.Pool({ connectionString: database, max: 2 })
  const once = effectivelyOnce({ namespace: 'streams', store: pgStore(pool), guard: 'off', sweep: false })
  await once.migrate()
  let [rss, held] = [0, 0]
  const onMemory = (seen: Memory): void => {
    rss = Math.max(rss, seen.rss)
    held = Math.max(held, seen.held ?? Infinity)
  }
  const server = await startServer(database, onMemory, { collects: true })
  const signal = AbortSignal.timeout(timeoutMs)
  const open = async (stream: Stream): Promise<Response> =>
    fetch(`http://127.0.0.1:${server.port}/resumed`, {
      method: 'POST',
      body: JSON.stringify(stream),
      headers: { 'content-type': 'application/json', 'idempotency-key': stream.name },
      signal,
    })
  try {
    // Loads every part of the path before the first look.
    await (await open({ name: 'warm', kind: 'bytes', chunks: CHUNKS_PER_MIB, chunkBytes: CHUNK_BYTES })).text()
    await pass(LOOK_MS * 5)
    const before = { rss, held }
    const all = Array.from({ length: streams }, (_, no): Stream => {
      return { name: `large-${no}`, kind: 'bytes', chunks: mibEach * CHUNKS_PER_MIB, chunkBytes: CHUNK_BYTES }
    })
    const responses = await Promise.all(all.map(open))
    while ((await endedIn(pool)) < streams) {
      signal.throwIfAborted()
      await pass(LOOK_MS)
    }
    let wrong = 0
    for (const [no, response] of responses.entries()) {
      if ((await response.text()) !== contentOf(all[no] as Stream)) wrong++
    }
    const contentMiB = streams * mibEach
    return { contentMiB, grownMiB: mib(held - before.held), rssGrownMiB: mib(rss - before.rss), wrong }
  } finally {
    server.child.kill('SIGKILL')
    await once.close()
    await pool.end()
  }
}

function mib(bytes: number): number {
  return Math.round(bytes / 1024 / 1024)
}

/** By plain SQL: the large streams that have an answer. */
async function endedIn(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(
    `select count(*)::int4 as n from effectively_once.record r join effectively_once.answer a on a.id = r.id
      where r.label like 'large-%'`,
  )
  return rows[0]?.n ?? 0
}
