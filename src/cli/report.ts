import { durationText } from '../duration.ts'
import type { Observe } from '../observe/signal.ts'
import type { Arguments } from './arguments.ts'
import type { Opened } from './open-store.ts'
import type { ExitCode } from './usage.ts'

/** The result of a command: `text` for people, `data` for --json. */
export interface Report {
  readonly text: string
  readonly data: unknown
  readonly exit?: ExitCode
}

export interface Told {
  /** Progress, for people: standard error. */
  progress(line: string): void
  /** Writes to standard output at once. Resolves when there is room for more. */
  out(line: string): Promise<void>
  /** Aborts at the first SIGINT or SIGTERM. A command that never reads it is ended by that signal. */
  readonly signal: AbortSignal
}

export type Run = (given: Arguments, told: Told) => Promise<Report>

export async function using<T>(given: Arguments, work: (opened: Opened) => Promise<T>, observe?: Observe): Promise<T> {
  // Check the input before the stores are loaded.
  const { openStore } = await import('./open-store.ts')
  const opened = await openStore(given, observe)
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}

/** The first line of an error. After several tries, a client reports the cause only in its first inner error. */
export function lineOf(error: unknown, deep = 3): string {
  const message = error instanceof Error ? error.message : String(error)
  const errors: unknown = (error as { errors?: unknown } | null | undefined)?.errors
  const inner: unknown = Array.isArray(errors) ? errors[0] : undefined
  const more = inner === undefined || deep === 0 ? '' : lineOf(inner, deep - 1)
  return `${message.split('\n', 1)[0] ?? ''} ${more}`.trim() || String(error)
}

/** Formats a table whose columns are as wide as their widest cell. */
export function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const lines = [head, ...rows].map((row) => row.map(String))
  const widths = head.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  return lines
    .map((line) =>
      line
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

export function ago(ms: number | null): string {
  return ms === null ? 'never' : durationText(Math.max(0, ms), Math.floor)
}

/** '1 event', '2 events'. */
export function counted(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`
}

export function shortened(text: string | null, length: number): string {
  const line = (text ?? '').replaceAll(/\s+/g, ' ')
  return line.length > length ? `${line.slice(0, length - 1)}…` : line
}
