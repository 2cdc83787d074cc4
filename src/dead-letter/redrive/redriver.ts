import { REDRIVE_LEASE_MS, REDRIVE_POLL_MS } from '../../limits.ts'
import type { ConsumerParts } from '../../once/consumer-parts.ts'
import { sleep } from '../../platform/clock.ts'
import { RedriveExecutor } from './executor.ts'

/**
 * While a consumer runs, it also takes up redrives of its dead letters: whoever asks for one need not have its handlers.
 * Returns when it is stopped and its last batch is settled.
 */
export async function runRedrives<Tx>(parts: ConsumerParts<Tx>, signal: AbortSignal): Promise<void> {
  const { clock, random, settings } = parts.core
  while (!signal.aborted) {
    try {
      await workOnRedrive(parts, signal)
    } catch (error) {
      if (!signal.aborted) settings.observe({ kind: 'troubled', task: 'redrive', error })
    }
    await sleep(clock, REDRIVE_POLL_MS * (0.5 + random.next()), signal)
  }
}

/** The consumer's redrive, if there is one that nobody works on. Answers with how many letters were decided. */
export async function workOnRedrive<Tx>(parts: ConsumerParts<Tx>, signal: AbortSignal): Promise<number> {
  const { redrives } = parts.core.store
  if (!redrives || signal.aborted) return 0
  const lease = await redrives.claim({ consumer: parts.settings.name, leaseMs: REDRIVE_LEASE_MS })
  return lease ? new RedriveExecutor(parts, redrives, lease, signal).run() : 0
}
