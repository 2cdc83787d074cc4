import type { Signal } from '../observe/signal.ts'
import type { Core } from './core.ts'

/**
 * A full lock table does not count as a failure of any message. From now on fewer locks are taken, and a signal reports
 * it.
 */
export function isCrowded<Tx>(core: Core<Tx>, error: unknown): boolean {
  return core.store.locks?.isCrowded(error) === true
}

export function tellCrowded<Tx>(
  { store, settings }: Core<Tx>,
  task: Extract<Signal, { kind: 'lockTableFull' }>['task'],
  error: unknown,
): void {
  if (!store.locks?.isCrowded(error)) return
  const locks = store.locks.crowded()
  if (locks !== null) settings.observe({ kind: 'lockTableFull', task, locks })
}

/** Runs a transaction that locks this many messages, as soon as there is room for the locks. */
export async function withLocks<Tx, T>(
  { store: { locks } }: Core<Tx>,
  messages: number,
  work: () => Promise<T>,
): Promise<T> {
  const waits = locks?.take(messages)
  if (waits) await waits
  try {
    return await work()
  } finally {
    locks?.give(messages)
  }
}
