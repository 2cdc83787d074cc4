import type { Signal } from 'effectively-once'

/**
 * Lets the tests kill the numbered examples. With CRASH_AT=before-commit or CRASH_AT=after-commit a process ends there
 * by SIGKILL. Your own code needs no such lines.
 */
export type CrashPoint = 'before-commit' | 'after-commit'

export function crashPoint(point: CrashPoint): void {
  if (process.env['CRASH_AT'] !== point) return
  process.kill(process.pid, 'SIGKILL')
  for (;;); // not one statement further
}

/** Committed, but nobody outside knows it yet: no answer was sent, and the broker got no acknowledgement. */
export function observe({ kind }: Signal): void {
  if (kind === 'completed' || kind === 'consumed') crashPoint('after-commit')
}
