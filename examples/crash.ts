import type { Signal } from '../src/index.ts'

/**
 * How the tests of the numbered examples kill them: with CRASH_AT=before-commit or CRASH_AT=after-commit a process ends by
 * SIGKILL there. Your own code has no such lines.
 */
export type CrashPoint = 'before-commit' | 'after-commit'

export function crashPoint(point: CrashPoint): void {
  if (process.env['CRASH_AT'] !== point) return
  process.kill(process.pid, 'SIGKILL')
  for (;;); // not one statement further
}

/** Committed; nobody outside knows it yet: no answer has left, no broker was told. */
export function observe({ kind }: Signal): void {
  if (kind === 'completed' || kind === 'consumed') crashPoint('after-commit')
}
