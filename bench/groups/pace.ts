import { once as onceEvent } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { inProcessSink, type OutgoingEvent, type Sink } from '../../src/index.ts'
import { webhookSink } from '../../src/sink/webhook.ts'
import { createDatabase, onServer, openOnce, openPool, type BenchOnce } from '../support/database.ts'

export const SLOW_KINDS = ['inProcess', 'webhook'] as const
export type SlowKind = (typeof SLOW_KINDS)[number]

export function isSlowKind(name: string): name is SlowKind {
  return SLOW_KINDS.some((kind) => kind === name)
}

export interface PaceParams {
  readonly sink: SlowKind
  readonly delayMs: number
  /** About how long the plain loop takes. */
  readonly seconds: number
  /** Loop and relay run at the same time: on a machine whose pace changes only this compares them. */
  readonly together: boolean
}

export interface Pace {
  readonly sink: SlowKind
  readonly delayMs: number
  readonly concurrency: number
  readonly events: number
  /** Of the plain loop: before and after the relay, or beside it. */
  readonly plainMs: readonly number[]
  /** From the start of the relay to the last event that was taken. */
  readonly relayMs: number
  /** The relay's rate by the loop's. */
  readonly progress: number
  readonly callsPerEvent: number
  readonly stopMs: number
  /** Taken by the sink before a stop, and sent again by the next relay. */
  readonly unrecorded: number
}

const AGGREGATES = 2_000
const EVENTS_PER_OPERATION = 500
const EVENTS_MIN = 20
/** A sink of 1 ms is as fast as the processor lets it be. */
const EVENTS_MAX = 10_000
const SECRET = `whsec_${Buffer.from('a secret of some length').toString('base64')}`

/** A receiver that takes its time, and the sink to it. */
interface Slow {
  readonly sink: Sink
  taken: number
  close(): Promise<void>
}

export async function measurePace(
  serverUrl: string,
  { sink: kind, delayMs, seconds, together }: PaceParams,
): Promise<Pace> {
  const name = `bench_pace_${kind.toLowerCase()}_${delayMs}`
  const pool = openPool(await createDatabase(serverUrl, name))
  const once = await openOnce(pool)
  const slow = await openSlow(kind, delayMs)
  const beside = await openSlow(kind, delayMs)
  try {
    const concurrency = slow.sink.concurrency ?? 1
    const wanted = Math.round((seconds * 1_000 * concurrency) / delayMs)
    const events = Math.min(EVENTS_MAX, Math.max(EVENTS_MIN, wanted))
    await publish(once, events)
    const outgoing = await collect(once)
    const relayed = async (): Promise<number> => {
      const begun = performance.now()
      const relay = await once.relay({ to: slow.sink }).start()
      while (slow.taken < events) await sleep(Math.min(5, delayMs))
      const ms = performance.now() - begun
      await relay.drain()
      await relay.stop()
      return ms
    }
    const plain = (): Promise<number> => plainly(beside, outgoing, concurrency)
    const [relayMs, plainMs] = together ? await both(relayed, plain) : await inTurn(relayed, plain)
    const callsPerEvent = slow.taken / events
    const stopped = await stopInTheMiddle(once, slow, Math.ceil(events / 4))
    const mean = plainMs.reduce((sum, ms) => sum + ms, 0) / plainMs.length
    return {
      sink: kind,
      delayMs,
      concurrency,
      events,
      plainMs: plainMs.map(Math.round),
      relayMs: Math.round(relayMs),
      progress: Math.round((mean / relayMs) * 1_000) / 1_000,
      callsPerEvent,
      ...stopped,
    }
  } finally {
    await once.close()
    await slow.close()
    await beside.close()
    await pool.end()
    await onServer(serverUrl, `drop database ${name} with (force)`)
  }
}

type Taking = () => Promise<number>

async function both(relayed: Taking, plain: Taking): Promise<[number, number[]]> {
  const [relayMs, plainMs] = await Promise.all([relayed(), plain()])
  return [relayMs, [plainMs]]
}

async function inTurn(relayed: Taking, plain: Taking): Promise<[number, number[]]> {
  const before = await plain()
  const relayMs = await relayed()
  return [relayMs, [before, await plain()]]
}

let published = 0

async function publish(once: BenchOnce, events: number): Promise<void> {
  for (let at = 0; at < events; at += EVENTS_PER_OPERATION) {
    await once.run({ scope: 'pace', key: `${published}`, input: null }, async ({ publish: send }) => {
      for (let i = at; i < Math.min(events, at + EVENTS_PER_OPERATION); i++) {
        const n = published++
        await send('charge.created', { id: `${n}`, account: `account-${n % AGGREGATES}`, amount: 1 })
      }
    })
  }
}

async function collect(once: BenchOnce): Promise<OutgoingEvent[]> {
  const found: OutgoingEvent[] = []
  await once.relay({ to: inProcessSink((event) => void found.push(event), { name: 'collected' }) }).drain()
  return found
}

async function plainly({ sink }: Slow, events: readonly OutgoingEvent[], concurrency: number): Promise<number> {
  const { signal } = new AbortController()
  const begun = performance.now()
  let next = 0
  const worker = async (): Promise<void> => {
    for (let event = events[next++]; event; event = events[next++]) await sink.send([event], { signal })
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  return performance.now() - begun
}

async function stopInTheMiddle(
  once: BenchOnce,
  slow: Slow,
  events: number,
): Promise<Pick<Pace, 'stopMs' | 'unrecorded'>> {
  await publish(once, events)
  slow.taken = 0
  const relay = await once.relay({ to: slow.sink }).start()
  while (slow.taken < events / 4) await sleep(5)
  const begun = performance.now()
  await relay.stop()
  const stopMs = Math.round(performance.now() - begun)
  const { taken } = slow
  const rest = { ...slow.sink, send: inProcessSink(() => {}).send }
  const left = await once.relay({ to: rest }).drain()
  return { stopMs, unrecorded: Math.max(0, left + taken - events) }
}

async function openSlow(kind: SlowKind, delayMs: number): Promise<Slow> {
  const slow: { -readonly [K in keyof Slow]?: Slow[K] } & { taken: number } = { taken: 0 }
  const take = async (): Promise<void> => {
    await sleep(delayMs)
    slow.taken++
  }
  if (kind === 'inProcess') {
    slow.sink = inProcessSink(take, { name: 'slow' })
    slow.close = async () => {}
  } else {
    const server = await listen(take)
    slow.sink = webhookSink({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
      secret: SECRET,
      name: 'slow',
    })
    slow.close = async () => {
      server.close()
      server.closeAllConnections()
    }
  }
  return slow as Slow
}

async function listen(take: () => Promise<void>): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume()
    void take().then(() => response.writeHead(204).end())
  })
  server.listen(0, '127.0.0.1')
  await onceEvent(server, 'listening')
  return server
}
