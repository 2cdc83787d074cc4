import { fork, type ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { programBeside } from '../../scripts/program.ts'
import { Load, type Sights } from './client.ts'
import { type Adapter, DEADLINE_MS, type FromServer, LATE_MS, type ToServer } from './kinds.ts'

const WORKERS = 16
/** Between two requests of one worker, so that the machine has room for others. */
const PAUSE_MS = 10
const SAMPLE_MS = 60_000
const SAMPLES_MIN = 6
const REFERENCE_MS = 5 * 60_000
const ANSWER_MS = 60_000
const START_MS = 300_000
/** A shorter run says nothing about the heap. */
const JUDGED_MS = 60_000

export interface SoakResult extends Sights {
  readonly adapter: Adapter
  readonly seconds: number
  readonly uncaught: readonly string[]
  /** Keys whose effect is there more than once. */
  readonly twice: number
  /** In MB after collection, each with its second. */
  readonly heap: readonly { readonly second: number; readonly megabytes: number }[]
  /** The last heap as a part of that at minute 5, or after the first third of a shorter run. */
  readonly growth: number
}

/** Keep-alive load with faults on one adapter, whose server is a process of its own. `url` is an empty database. */
export async function soak(
  adapter: Adapter,
  { minutes, url, tell = () => {} }: { minutes: number; url: string; tell?: (line: string) => void },
): Promise<SoakResult> {
  const server = await startServer(adapter, url)
  try {
    return await soaked(adapter, minutes * 60_000, server, tell)
  } finally {
    await server.end()
  }
}

async function soaked(
  adapter: Adapter,
  totalMs: number,
  server: ServerProcess,
  tell: (line: string) => void,
): Promise<SoakResult> {
  const load = new Load(server.port, Math.random)
  const everyMs = totalMs < JUDGED_MS ? totalMs : Math.min(SAMPLE_MS, totalMs / SAMPLES_MIN)
  const from = performance.now()
  const heap: { second: number; megabytes: number }[] = []
  let last = await server.measure()
  for (let due = everyMs; due < totalMs + everyMs / 2; due += everyMs) {
    const until = performance.now() + everyMs
    await Promise.all(Array.from({ length: WORKERS }, () => work(load, until)))
    // Late handlers have their time, so that what is measured is what stays.
    await sleep(DEADLINE_MS + LATE_MS + 250)
    last = await server.measure()
    const sample = { second: Math.round(due / 1_000), megabytes: Math.round(last.heapBytes / 1e4) / 100 }
    heap.push(sample)
    tell(
      `${sample.second} s: ${sample.megabytes} MB, ${load.views.requests} requests, ${last.uncaught.length} uncaught`,
    )
  }
  load.close()
  const reference = heap.find(({ second }) => second * 1_000 >= Math.min(REFERENCE_MS, totalMs / 3) - 500)
  const growth = (heap.at(-1)?.megabytes ?? 0) / (reference?.megabytes ?? 1)
  return {
    adapter,
    seconds: Math.round((performance.now() - from) / 1_000),
    ...load.views,
    uncaught: last.uncaught,
    twice: last.twice,
    heap,
    growth: Math.round(growth * 1_000) / 1_000,
  }
}

async function work(load: Load, until: number): Promise<void> {
  while (performance.now() < until) {
    await load.turn()
    await sleep(PAUSE_MS)
  }
}

interface ServerProcess {
  readonly port: number
  measure(): Promise<Extract<FromServer, { say: 'measured' }>>
  end(): Promise<void>
}

async function startServer(adapter: Adapter, url: string): Promise<ServerProcess> {
  const { file, execArgv } = programBeside(import.meta.url, 'server')
  const child = fork(file, [adapter, url], {
    execArgv: [...execArgv, '--expose-gc'],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const { port } = await told(child, 'listening', START_MS)
  return {
    port,
    measure: () => {
      child.send({ ask: 'measure' } satisfies ToServer)
      return told(child, 'measured')
    },
    end: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = new Promise((resolve) => child.once('exit', resolve))
      if (child.connected) child.send({ ask: 'end' } satisfies ToServer)
      if ((await Promise.race([ended, sleep(5_000, 'late', { ref: false })])) === 'late') child.kill('SIGKILL')
      await ended
    },
  }
}

function told<S extends FromServer['say']>(
  child: ChildProcess,
  what: S,
  withinMs = ANSWER_MS,
): Promise<Extract<FromServer, { say: S }>> {
  return new Promise((resolve, reject) => {
    const over = (why: string): void => {
      clearTimeout(timer)
      reject(new Error(`the server of the soak ${why}`))
    }
    const ended = (code: number | null): void => over(`ended with ${code}`)
    const timer = setTimeout(over, withinMs, `did not say ${what}`)
    child.once('exit', ended)
    child.once('message', (message: FromServer) => {
      clearTimeout(timer)
      child.off('exit', ended)
      if (message.say === what) resolve(message as Extract<FromServer, { say: S }>)
      else over(`said ${message.say}`)
    })
  })
}

/**
 * The failures that come of the soak's own doing, and which part of all answers may be one: collections, and sixteen
 * workers on a shared machine, hold a request up past its short deadline, here or on the database. Nothing else may fail.
 */
const EXPLAINED: Readonly<Record<string, number>> = { ONCE_DEADLINE: 0.02, ONCE_STORE_UNAVAILABLE: 0.002 }

/** What a run must not show. */
export function problemsOf(result: SoakResult, growthMax: number): string[] {
  const { uncaught, foreign, malformed, twice, odd, growth, answers, replays, unexpected } = result
  return [
    ...(uncaught.length > 0 ? [`${uncaught.length} uncaught, such as ${uncaught[0]}`] : []),
    ...(foreign > 0 ? [`${foreign} answers that belong to another request`] : []),
    ...(malformed > 0 ? [`${malformed} answers that cannot be read`] : []),
    ...(twice > 0 ? [`${twice} effects that happened twice`] : []),
    ...Object.entries(odd).map(([what, count]) => `${count} of ${what}`),
    ...(growth > growthMax ? [`the heap grew to ${growth} of what it was`] : []),
    ...Object.entries(unexpected)
      .filter(([code, count]) => count > answers * (EXPLAINED[code] ?? 0))
      .map(([code, count]) => `${count} of ${answers} answers were ${code}`),
    ...(answers === 0 || replays === 0 ? ['nothing was answered, or nothing replayed'] : []),
  ]
}
