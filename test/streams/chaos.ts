import { once as onceEvent } from 'node:events'
import { setTimeout as pass } from 'node:timers/promises'
import pg from 'pg'
import { effectivelyOnce } from '../../src/index.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { Dice } from '../../src/testing/sim/dice.ts'
import { contentOf, KINDS, plain, type Stream } from './content.ts'
import { startServer, type Server } from './server.ts'

const PROCESSES = 3
const CLIENTS = 48
/** The share of streams that a second client follows, and that end as failed after a death. */
const FOLLOWED = 0.2
const FINAL = 0.1
const AGAIN_MS = 50

/** The last frames of streams without an orderly end. */
const INTERRUPTED = /(?:event: error\ndata: |\{"error":)\{[^\n]*ONCE_STREAM_INTERRUPTED[^\n]*\n+$/
const FAILED = /(?:event: error\ndata: |\{"error":)\{[^\n]*ONCE_STREAM_FAILED[^\n]*\n+$/

export interface StreamsChaos {
  readonly streams: number
  readonly chunks: number
  readonly kills: number
  /** Connections that the client cut, and reopened elsewhere. */
  readonly reconnects: number
  /** How many of them were made while the stream was being produced. */
  readonly live: number
  /** Connections that a death or an interruption ended. */
  readonly broken: number
  /** Streams that ended as failed, as their route says. */
  readonly failed: number
  /** Readers whose bytes are not those of the stream: lost, doubled or reordered. */
  readonly wrong: number
  /** Streams whose replay, or whose rows, differ from what the reader got. */
  readonly rewritten: number
  /** Chunks in the database. A chunk holds what came while the previous one was being committed. */
  readonly recorded: number
  /** The most memory of a server, in MiB. */
  readonly memoryMiB: number
  readonly seconds: number
}

/** Reads many streams through servers that are killed, and compares every byte with what must be there. */
export async function streamsChaos(params: {
  readonly database: string
  readonly streams: number
  readonly chunks: number
  readonly kills: number
  readonly reconnects: number
  readonly seed: number
  readonly timeoutMs: number
}): Promise<StreamsChaos> {
  const { database, streams, chunks, seed, timeoutMs } = params
  const began = performance.now()
  const dice = new Dice(seed)
  const pool = new pg.Pool({ connectionString: database, max: 4 })
  const once = effectivelyOnce({ namespace: 'streams', store: pgStore(pool), guard: 'off', sweep: false })
  await once.migrate()
  let rss = 0
  const servers = await Promise.all(
    Array.from({ length: PROCESSES }, () => startServer(database, (seen) => (rss = Math.max(rss, seen.rss)))),
  )
  const counts = { reconnects: 0, late: 0, broken: 0, failed: 0, wrong: 0, rewritten: 0, kills: 0, done: 0 }
  const run = new AbortController()
  const timer = setTimeout(() => run.abort(new Error(`not done after ${timeoutMs} ms`)), timeoutMs)
  /** The cuts that are still to be made, so that the number is exact. */
  let cuts = params.reconnects

  /** Reads until the stream ends, with as many cuts as planned. */
  const read = async (stream: Stream, route: string, cutsOwn: number): Promise<string> => {
    let text = ''
    const { length } = contentOf(stream)
    const at = Array.from({ length: cutsOwn }, () => dice.below(length)).sort((a, b) => a - b)
    for (;;) {
      run.signal.throwIfAborted()
      try {
        const response = await post(stream, route, positionIn(stream, text))
        let isCut = false
        for await (const bytes of response) {
          text += Buffer.from(bytes).toString('latin1')
          isCut = at[0] !== undefined && text.length >= at[0]
          if (isCut) break
        }
        const isInterrupted = INTERRUPTED.test(text)
        if (!isCut && !isInterrupted) {
          cuts += at.length
          return text
        }
        if (isCut) at.shift()
        if (isCut) counts.reconnects++
        else counts.broken++
      } catch {
        run.signal.throwIfAborted()
        counts.broken++
        await pass(AGAIN_MS)
      }
      // What was not recorded does not count.
      text = text.replace(INTERRUPTED, '')
      if (stream.kind === 'events') text = wholeEvents(text)
    }
  }

  /** Where a client goes on: behind its last event, or behind its last byte. */
  const positionIn = ({ kind }: Stream, text: string): Record<string, string> => {
    const lastId = kind === 'events' && dice.chance(0.5) ? [...text.matchAll(/^id: (@\d+)$/gm)].at(-1)?.[1] : undefined
    return lastId === undefined ? { 'stream-offset': String(text.length) } : { 'last-event-id': lastId }
  }

  const post = async (
    stream: Stream,
    route: string,
    position: Record<string, string>,
  ): Promise<AsyncIterable<Uint8Array>> => {
    const { port } = dice.pick(servers)
    const response = await fetch(`http://127.0.0.1:${port}${route}`, {
      method: 'POST',
      body: JSON.stringify(stream),
      headers: { 'content-type': 'application/json', 'idempotency-key': stream.name, ...position },
      signal: run.signal,
    })
    if (response.status !== 200 || !response.body) throw new Error(`${response.status} ${await response.text()}`)
    return response.body
  }

  const replayed = async (stream: Stream, route: string, from = 0): Promise<string> => {
    let text = ''
    for await (const bytes of await post(stream, route, { 'stream-offset': String(from) }))
      text += Buffer.from(bytes).toString('latin1')
    return text
  }

  const one = async (no: number): Promise<void> => {
    const stream: Stream = { name: `s${no}`, kind: KINDS[no % KINDS.length] as Stream['kind'], chunks }
    // Each kind of frame can say its end. Bytes alone cannot, so their routes resume.
    const route = stream.kind !== 'bytes' && dice.below(1_000) < FINAL * 1_000 ? '/failed' : '/resumed'
    const cutsOwn = Math.min(cuts, Math.round((params.reconnects / streams) * 2 * (dice.below(1_000) / 1_000)))
    cuts -= cutsOwn
    const isFollowed = dice.below(1_000) < FOLLOWED * 1_000
    const readers = [read(stream, route, cutsOwn), ...(isFollowed ? [read(stream, route, 0)] : [])]
    const wanted = contentOf(stream)
    const texts = await Promise.all(readers)
    const first = texts[0] as string
    for (const text of texts) {
      const failure = FAILED.exec(text)
      const said = plain(failure ? text.slice(0, failure.index) : text)
      const isRight = failure ? route === '/failed' && wanted.startsWith(said) : said === wanted
      if (!isRight || text !== first) counts.wrong++
      if (failure && text === first) counts.failed++
    }
    if ((await again(() => replayed(stream, route))) !== first || (await storedOf(pool, stream)) !== first)
      counts.rewritten++
    // Cuts that found no time while the stream was produced are made while it is replayed.
    while (cuts > ((streams - counts.done - 1) / streams) * params.reconnects) {
      cuts--
      counts.reconnects++
      counts.late++
      const from = dice.below(first.length)
      if ((await again(() => replayed(stream, route, from))) !== first.slice(from)) counts.wrong++
    }
    counts.done++
  }

  const kill = async (): Promise<void> => {
    const no = dice.below(servers.length)
    const victim = servers[no] as Server
    const gone = onceEvent(victim.child, 'exit')
    victim.child.kill('SIGKILL')
    await gone
    counts.kills++
    servers[no] = await startServer(database, (seen) => (rss = Math.max(rss, seen.rss)))
  }

  const killing = (async () => {
    for (let kills = 0; kills < params.kills; kills++) {
      // Spread over the run, by its progress.
      const due = ((kills + 0.5) / params.kills) * streams
      while (counts.done < due - CLIENTS / 2 && !run.signal.aborted) await pass(20)
      if (run.signal.aborted) return
      await kill()
      await pass(100 + dice.below(400))
    }
  })()

  try {
    let next = 0
    const clients = Array.from({ length: Math.min(CLIENTS, streams) }, async () => {
      while (next < streams) await one(next++)
    })
    await Promise.all([...clients, killing])
    const [row] = await rowsOf(pool, 'select count(*)::int4 as n from effectively_once.chunk where start >= 0', [])
    const { reconnects, late, broken, failed, wrong, rewritten, kills } = counts
    const memoryMiB = Math.round(rss / 1024 / 1024)
    const seconds = Math.round((performance.now() - began) / 100) / 10
    return {
      streams,
      chunks,
      kills,
      reconnects,
      live: reconnects - late,
      broken,
      failed,
      wrong,
      rewritten,
      recorded: Number(row?.['n']),
      memoryMiB,
      seconds,
    }
  } finally {
    clearTimeout(timer)
    run.abort(new Error('over'))
    await killing.catch(() => {})
    for (const { child } of servers) child.kill('SIGKILL')
    await once.close()
    await pool.end()
  }
}

/** A client that goes on behind an event drops the one that was cut. */
function wholeEvents(text: string): string {
  const end = text.lastIndexOf('\n\n')
  return end < 0 ? '' : text.slice(0, end + 2)
}

/** A server may die during the last look, too. */
async function again<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries === 20) throw error
      await pass(AGAIN_MS * 4)
    }
  }
}

/** The bytes of the stream by plain SQL. They must follow each other without a gap. */
async function storedOf(pool: pg.Pool, { name }: Stream): Promise<string> {
  const rows = await rowsOf(
    pool,
    `select c.start::float8 as start, c.body from effectively_once.record r join effectively_once.chunk c on c.id = r.id
      where r.label = $1 and c.start >= 0 order by c.start`,
    [name],
  )
  let text = ''
  for (const row of rows) {
    if (Number(row['start']) !== text.length) return `a gap at ${text.length}`
    text += (row['body'] as Buffer).toString('latin1')
  }
  const [last] = await rowsOf(
    pool,
    `select a.body from effectively_once.record r join effectively_once.answer a on a.id = r.id where r.label = $1`,
    [name],
  )
  return text + ((last?.['body'] as Buffer | null)?.toString('latin1') ?? '')
}

async function rowsOf(pool: pg.Pool, sql: string, values: readonly unknown[]): Promise<Record<string, unknown>[]> {
  return (await pool.query(sql, [...values])).rows as Record<string, unknown>[]
}
