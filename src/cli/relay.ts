import { webhookSink } from '../sink/webhook.ts'
import { using, type Run } from './report.ts'
import { UsageError } from './usage.ts'

const SECRET_DEFAULT = 'WEBHOOK_SECRET'
const PROGRESS_MS = 5_000

/** Events to a webhook, without a program of one's own. Other sinks need their client: `once.relay({ to })`. */
export const relay: Run = (given, { progress, signal }) => {
  const { to, 'secret-env': variable = SECRET_DEFAULT, drain = false } = given.values
  if (to === undefined) throw new UsageError('relay needs --to URL')
  if (!/^https?:\/\//i.test(to)) {
    throw new UsageError('--to must be an http(s) URL; for a broker, call once.relay({ to }) in a program of yours')
  }
  const secret = process.env[variable]
  if (!secret) throw new UsageError(`the environment variable ${variable} must hold the webhook's secret (whsec_…)`)
  const sink = webhookSink({ url: to, secret })
  return using(given, async ({ once, where }) => {
    const worker = once.relay({ to: sink })
    if (drain) {
      const sent = await worker.drain()
      return { text: `${sent} events sent to ${sink.name}`, data: { sent, to: sink.name } }
    }
    await worker.start()
    progress(`relaying from ${where} to ${sink.name}; interrupt to stop`)
    const beat = setInterval(() => progress(`relaying to ${sink.name}`), PROGRESS_MS * 12)
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    clearInterval(beat)
    await worker.stop()
    return { text: `stopped`, data: { stopped: true, to: sink.name } }
  })
}
