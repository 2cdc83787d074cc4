import type { Clock } from '../platform/clock.ts'
import { marked, withinTime } from './attempt.ts'
import { isCallError } from './call-error.ts'
import { leftOpen, type Run } from './retries.ts'
import type { StoredCall } from './stored-call.ts'
import type { CallResponse } from './types.ts'

/** The calls that a client is sending: a second caller gets the same answer. */
export type RunningCalls = Map<string, Running>

interface Running {
  /** Undefined: the call had ended before it was sent. */
  readonly answer: Promise<CallResponse | undefined>
  /** Of the first caller. */
  readonly run: Run
}

export function idOf({ hash, name }: StoredCall): string {
  return hash + name
}

/** Two callers of one call in this process share one run, but each gives up for itself. */
export async function alone<T extends CallResponse | undefined>(
  running: RunningCalls,
  clock: Clock,
  run: Run,
  start: () => Promise<T>,
): Promise<T | CallResponse> {
  const id = idOf(run.call)
  for (;;) {
    const other = running.get(id)
    const own = other ?? { answer: start().finally(() => running.delete(id)), run }
    running.set(id, own)
    try {
      const response = await (other
        ? withinTime(clock, run.endsAt - clock.now(), run.signal, () => own.answer)
        : own.answer)
      if (response) return marked(response.clone(), response, response.key)
      if (!other) return response as T
    } catch (cause) {
      if (!isCallError(cause)) throw leftOpen(own.run.call, true, 'its caller gave up', { cause }).error
      // If only the first caller gave up, or had less time, this one goes on.
      if (!other || !(other.run.signal?.aborted || (other.run.isOver && other.run.endsAt < run.endsAt))) throw cause
    }
  }
}
