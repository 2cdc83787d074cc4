import { REDRIVE_KEPT_MS, SWEEP_EVERY_MS, SWEEP_LIMIT_DEFAULT } from '../limits.ts'
import type { SweptInbox } from '../store/inbox.ts'
import type { Swept } from '../store/store.ts'
import type { Core } from './core.ts'

export interface SweptAll extends Swept {
  /** What became of the memory of consumers; null where there is none. */
  readonly inbox: SweptInbox | null
}

/** Sweeps now. */
export async function sweepNow<Tx>(
  core: Core<Tx>,
  limit: number = SWEEP_LIMIT_DEFAULT,
  signal?: AbortSignal,
): Promise<SweptAll> {
  const { replayForMs, resendForMs, observe } = core.settings
  const swept = await core.store.retention.sweep({ limit, replayForMs, resendForMs, signal })
  const { records, events, suspended, partitionsDropped, partitionsBusy } = swept
  observe({ kind: 'swept', records, events, suspended, partitionsDropped, partitionsBusy })
  for (const miscounted of swept.miscounted) observe({ kind: 'miscounted', ...miscounted })
  const inbox = (await core.store.inbox?.sweep({ limit, signal })) ?? null
  if (inbox && inbox.marked + inbox.rows + inbox.marks + inbox.letters > 0) {
    const { marked, rows, marks, letters } = inbox
    observe({ kind: 'sweptInbox', marked, rows, marks, letters })
  }
  await core.store.redrives?.sweep({ keepForMs: REDRIVE_KEPT_MS })
  return { ...swept, inbox, finished: swept.finished && (inbox?.finished ?? true) }
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
