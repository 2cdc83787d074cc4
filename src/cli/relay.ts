import type { Observe } from '../observe/signal.ts'
import { destinationOf } from './destination.ts'
import type { Opened } from './open-store.ts'
import { counted, shortened, using, type Report, type Run } from './report.ts'
import { SignalLines } from './signals.ts'
import { EXIT, UsageError } from './usage.ts'

const PROGRESS_MS = 60_000
const CLOSE_MS = 5_000
const REASON_LENGTH_MAX = 300

/** Sends events to a webhook or a broker, without a program of the user. */
export const relay: Run = (given, { progress, signal }) => {
  const { to = process.env['RELAY_TO'], drain = false } = given.values
  if (!to) throw new UsageError('relay needs --to URL, or the environment variable RELAY_TO')
  const open = destinationOf(to, given.values)
  const lines = new SignalLines(progress)
  let parked = 0
  const observe: Observe = (event) => {
    if (event.kind === 'parked') parked++
    lines.observe(event)
  }
  const work = async ({ once, where }: Opened): Promise<Report> => {
    const { sink, close } = await open()
    try {
      const worker = once.relay({ to: sink })
      if (drain) {
        signal.addEventListener('abort', () => void worker.stop(), { once: true })
        const sent = await worker.drain()
        const { destinations } = await once.status()
        const { retrying = 0, error = null } = destinations.find(({ name }) => name === sink.name) ?? {}
        const failed = parked + retrying
        const rest = signal.aborted
          ? '; stopped before the end'
          : failed > 0
            ? `; ${counted(failed, 'event')} failed${error === null ? '' : `: ${shortened(error, REASON_LENGTH_MAX)}`}`
            : ''
        const exit = rest === '' ? EXIT.done : EXIT.attention
        return { text: `${sent} events sent to ${sink.name}${rest}`, data: { sent, to: sink.name, failed }, exit }
      }
      await worker.start()
      progress(`relaying from ${where} to ${sink.name}; interrupt to stop`)
      const beat = setInterval(() => progress(`relaying to ${sink.name}`), PROGRESS_MS)
      // The signal may have come while the broker was opened.
      if (!signal.aborted)
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
      clearInterval(beat)
      await worker.stop()
      return { text: `stopped`, data: { stopped: true, to: sink.name } }
    } finally {
      // The relay closes its sink when it stops, but not a sink that it could not open.
      await inTime(sink.close?.())
      await inTime(close())
    }
  }
  return using(given, work, observe).finally(() => lines.end())
}

/** Some clients wait for ever for a broker that is gone. */
async function inTime(closing: Promise<unknown> | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => (timer = setTimeout(resolve, CLOSE_MS)))
  await Promise.race([closing, late])
  clearTimeout(timer)
}
