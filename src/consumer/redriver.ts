import { REDRIVE_LEASE_MS, REDRIVE_POLL_MS } from '../limits.ts'
import type { ConsumerParts } from './parts.ts'
import { sleep } from '../platform/clock.ts'
import { RedriveExecutor } from './redrive-executor.ts'
import { Unsure } from './redrive-unsure.ts'

/**
 * While a consumer runs, it also runs redrives of its dead letters, so the tool that starts a redrive needs no
 * handlers. Returns when it is stopped and its last batch is settled.
 */
export async function runRedrives<Tx>(parts: ConsumerParts<Tx>, signal: AbortSignal): Promise<void> {
  const { clock, random, settings } = parts.core
  const unsure = new Unsure(parts)
  const { pausing } = parts
  let period: AbortSignal | undefined
  let until = signal
  while (!signal.aborted) {
    // Use one signal for each period between two pauses, because Node keeps some memory for every combined signal.
    if (period !== pausing.signal) until = AbortSignal.any([signal, (period = pausing.signal)])
    if (!pausing.paused) await turn(until)
    await sleep(clock, REDRIVE_POLL_MS * (0.5 + random.next()), signal)
  }
  await unsure.end()

  async function turn(ended: AbortSignal): Promise<void> {
    try {
      // Check the letters that a former executor left unsure.
      await unsure.clear()
      await workOn(parts, unsure, ended)
    } catch (error) {
      if (!ended.aborted) settings.observe({ kind: 'troubled', task: 'redrive', error })
    }
  }
}

/** Takes the consumer's redrive, if no process works on it. Returns how many letters were decided. */
export async function workOnRedrive<Tx>(parts: ConsumerParts<Tx>, signal: AbortSignal): Promise<number> {
  const unsure = new Unsure(parts)
  try {
    return await workOn(parts, unsure, signal)
  } finally {
    await unsure.end()
  }
}

async function workOn<Tx>(parts: ConsumerParts<Tx>, unsure: Unsure<Tx>, signal: AbortSignal): Promise<number> {
  const { redrives } = parts.core.namespace
  if (!redrives || signal.aborted) return 0
  const lease = await redrives.claim({ consumer: parts.settings.name, leaseMs: REDRIVE_LEASE_MS })
  return lease ? new RedriveExecutor(parts, { redrives, lease, unsure }, signal).run() : 0
}
