import { SWEEP_EVERY_MS, SWEEP_LIMIT_DEFAULT } from '../limits.ts'
import type { Swept } from '../store/store.ts'
import type { Core } from './core.ts'

/** Sweeps now. */
export async function sweepNow<Tx>(
  core: Core<Tx>,
  limit: number = SWEEP_LIMIT_DEFAULT,
  signal?: AbortSignal,
): Promise<Swept> {
  const { replayForMs, resendForMs, observe } = core.settings
  const swept = await core.store.retention.sweep({ limit, replayForMs, resendForMs, signal })
  const { records, events, suspended, partitionsDropped, partitionsBusy } = swept
  observe({ kind: 'swept', records, events, suspended, partitionsDropped, partitionsBusy })
  for (const miscounted of swept.miscounted) observe({ kind: 'miscounted', ...miscounted })
  return swept
}

/** Sweeps in the background; the timer keeps no process alive. Returns how to stop. */
export function startSweeper<Tx>(core: Core<Tx>): () => void {
  const stopped = new AbortController()
  let cancel = (): void => {}
  const next = (): void => {
    // Jitter, so that the processes of one deployment do not sweep in step.
    cancel = core.clock.after(SWEEP_EVERY_MS * (0.5 + core.random.next()), () => {
      sweepNow(core, SWEEP_LIMIT_DEFAULT, stopped.signal)
        .catch((error: unknown) => core.settings.observe({ kind: 'troubled', task: 'sweep', error }))
        .finally(() => {
          if (!stopped.signal.aborted) next()
        })
    })
  }
  next()
  return () => {
    stopped.abort()
    cancel()
  }
}
