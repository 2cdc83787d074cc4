import { milliseconds, type Duration } from '../duration.ts'
import { CLOSE_LAST_MS, CLOSE_MS_DEFAULT, CLOSE_MS_MAX, CLOSE_STORE_MS_MIN } from '../limits.ts'
import { invalid, refuseUnknown } from '../options.ts'
import type { CutOff } from '../observe/signal.ts'
import type { Core, StoppableWork } from '../operation/core.ts'
import { sleep } from '../platform/clock.ts'
import { ClosingServer, type ClosableServer } from './closing-server.ts'
import type { Sweeper } from './sweeper.ts'

export interface CloseOptions {
  /** `close` ends within this time, and cuts off work that still runs then. Default '10s' */
  within?: Duration
  /** An HTTP server that is closed first. It answers the requests that it has accepted before new work is refused. */
  server?: ClosableServer
}

export interface Closed {
  /** Work that did not end in time. Nothing is lost: committed work stays, and other work is tried again. */
  readonly cutOff: readonly CutOff[]
}

export interface Closing<Tx> {
  readonly core: Core<Tx>
  readonly sweeper: Sweeper<Tx>
  /** True if this was the last instance on its store. */
  readonly leaveContext: () => boolean
}

const OPTIONS = new Set(['within', 'server'])

/** Checks the options before anything stops, so that a wrong option closes nothing. */
export function checkClose(options: CloseOptions): { withinMs: number; server: ClosableServer | undefined } {
  if (typeof options !== 'object' || options === null) throw invalid('close() takes { within, server }')
  refuseUnknown(options, OPTIONS, 'close()')
  const { within, server } = options
  if (server !== undefined && typeof server?.close !== 'function') throw invalid('server must have a close() method')
  const withinMs = milliseconds(within, CLOSE_MS_DEFAULT, { option: 'within', min: 0, max: CLOSE_MS_MAX })
  return { withinMs, server }
}

/**
 * Closes consumers, operations, then relays: relays end last, because the others still publish events. Webhook
 * consumers end after the server that feeds them. The last part of the time is reserved for roll-backs, for returning
 * messages and for recording results.
 */
export async function closeAll<Tx>(
  { core, sweeper, leaveContext }: Closing<Tx>,
  { withinMs, server: given }: ReturnType<typeof checkClose>,
): Promise<Closed> {
  const { clock } = core
  core.closing = true
  const endsAt = clock.now() + withinMs
  const lastMs = Math.min(withinMs / 4, CLOSE_LAST_MS)
  const cutAt = endsAt - lastMs
  const left = (): number => Math.max(0, Math.round(endsAt - clock.now()))
  const stopping = new Map<StoppableWork, Promise<void>>()
  const stop = (worker: StoppableWork): Promise<void> => {
    const stopped = worker.stop({ within: `${left()}ms` }).catch(() => {}) // The worker has reported it.
    stopping.set(
      worker,
      stopped.then(() => void (worker.underWay === 0 && stopping.delete(worker))),
    )
    return stopped
  }
  const server = given && new ClosingServer(given, clock)
  const swept = sweeper.stop()
  const pulled = [...core.workers].filter(({ isFed }) => !isFed).map(stop)
  const refusing = (async () => {
    if (server) await until(core, cutAt, server.ended)
    core.closed = true
    const fed = [...core.workers].filter(({ isFed }) => isFed).map(stop)
    await Promise.all([...fed, core.inFlight.drained()])
  })()
  if (!server) core.closed = true
  const producers = Promise.all([refusing, swept, ...pulled])
  const relays = until(core, clock.now() + withinMs / 2, producers).then(() => Promise.all([...core.relays].map(stop)))
  const everything = Promise.all([producers, relays])
  let cutOff: CutOff[] = []
  const inTime = await until(core, cutAt, everything)
  // All work may have ended, while the server still serves requests that run no operation.
  if (!inTime || server?.isEnded === false) {
    core.closed = true
    cutOff = unfinished(core, stopping.keys(), server, sweeper)
    core.running.cut()
    // Let the answers of cut-off work leave first. The rest of the time is for the store and for the end of the
    // process.
    await until(core, endsAt - lastMs / 4, Promise.all([everything, server?.ended]))
    server?.cut()
    await until(core, endsAt, everything)
  }
  for (const { kind, name, isCutShort } of core.relays) {
    if (isCutShort && !cutOff.some((other) => other.kind === kind && other.name === name))
      cutOff.push({ kind, name, count: 1 })
  }
  core.heartbeat.stop()
  core.guard?.stop()
  core.cache.clear()
  if (leaveContext()) await until(core, clock.now() + Math.max(left(), CLOSE_STORE_MS_MIN), core.store.close())
  core.settings.observe({ kind: 'closed', cutOff })
  return { cutOff }
}

function unfinished<Tx>(
  core: Core<Tx>,
  workers: Iterable<StoppableWork>,
  server: ClosingServer | undefined,
  sweeper: Sweeper<Tx>,
): CutOff[] {
  const found: CutOff[] = []
  for (const [name, count] of core.inFlight.routes()) found.push({ kind: 'operation', name, count })
  for (const { kind, name, underWay } of workers) found.push({ kind, name, count: Math.max(1, underWay) })
  if (sweeper.isSweeping) found.push({ kind: 'sweep', name: '', count: 1 })
  // Do not list the server if operations are listed: they are its requests.
  if (server && !server.isEnded && found.length === 0) found.push({ kind: 'server', name: '', count: 1 })
  return found
}

/** False: the time ran out first. Failures of the work were reported where they happened. */
async function until<Tx>({ clock }: Core<Tx>, at: number, work: Promise<unknown>): Promise<boolean> {
  const ended = new AbortController()
  const late = sleep(clock, Math.max(0, at - clock.now()), ended.signal).then(() => false)
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    ended.abort()
  }
}
