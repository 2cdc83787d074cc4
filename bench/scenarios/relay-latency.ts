import pg from 'pg'
import type { OutgoingEvent, Sink } from '../../src/index.ts'
import { SENT } from '../../src/sink/sink.ts'
import type { BenchOnce } from '../support/database.ts'

const PER_SECOND = 1_000
const TICK_MS = 10
const WARM_UP_MS = 1_000
const WRITER_MS = 500

/**
 * Milliseconds from the completing statement to the sink, at a steady rate of single commits. The database takes the time
 * just before it commits, so the commit itself is in the figure.
 */
export async function commitToSend(once: BenchOnce, name: string, ms: number): Promise<number[]> {
  const waits: number[] = []
  let from = Infinity
  const to = sinkThatTells(name, (events) => {
    const now = Date.now()
    if (performance.now() >= from) for (const event of events) waits.push(now - Date.parse(event.time))
  })
  const relay = once.relay({ to })
  await relay.drain()
  await relay.start()
  const startedAt = performance.now()
  from = startedAt + WARM_UP_MS
  const running = new Set<Promise<unknown>>()
  let published = 0
  for (let passed = 0; passed < WARM_UP_MS + ms; passed = performance.now() - startedAt) {
    for (const due = Math.floor((passed * PER_SECOND) / 1000); published < due; published++) {
      const operation = publishOne(once, `${name} ${published}`, published).finally(() => running.delete(operation))
      running.add(operation)
    }
    await new Promise((resolve) => setTimeout(resolve, TICK_MS))
  }
  await Promise.all(running)
  await relay.drain()
  await relay.stop()
  return waits
}

function publishOne(once: BenchOnce, key: string, n: number): Promise<unknown> {
  return once.run({ scope: 'bench', key, input: n }, ({ publish }) =>
    publish('charge.created', { id: key, account: `account-${n % 1_000}`, amount: 1 }),
  )
}

/** Takes everything at once, and says so. */
function sinkThatTells(name: string, tell: (events: readonly OutgoingEvent[]) => void): Sink {
  return {
    name,
    proves: 'accepted',
    dedupes: false,
    orders: true,
    send: (events) => {
      tell(events)
      return Promise.resolve(events.map(() => SENT))
    },
  }
}

/** Somebody else's transaction that writes and stays open, again and again. Answers how to stop. */
export async function writeForLong(url: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const state = { going: true }
  const writing = (async () => {
    while (state.going) {
      await client.query('begin')
      await client.query(`insert into charge (account, amount) values ('foreign', 1)`)
      await new Promise((resolve) => setTimeout(resolve, WRITER_MS))
      await client.query('commit')
    }
  })()
  return async () => {
    state.going = false
    await writing
    await client.end()
  }
}

/** What the first event of a quiet time waits when another instance than the relay's publishes it. */
export async function firstOfQuiet(relaying: BenchOnce, publishing: BenchOnce, times: number): Promise<number[]> {
  const waits: number[] = []
  let arrived: (() => void) | undefined
  const name = `quiet ${performance.now()}`
  const to = sinkThatTells(name, () => arrived?.())
  const relay = relaying.relay({ to })
  await relay.drain()
  await relay.start()
  for (let i = 0; i < times; i++) {
    await new Promise((resolve) => setTimeout(resolve, 1_500 + ((i * 617) % 1_000)))
    const arrival = new Promise<void>((resolve) => (arrived = resolve))
    await publishOne(publishing, `${name} ${i}`, i)
    const committed = performance.now()
    await arrival
    waits.push(performance.now() - committed)
  }
  await relay.stop()
  return waits
}

export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}
