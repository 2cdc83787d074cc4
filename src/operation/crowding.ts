import type { Signal } from '../observe/signal.ts'
import type { Core } from './core.ts'

/** A full lock table is nobody's failure, whoever met it: less is locked from now on, and that is told. */
export function isCrowded<Tx>(core: Core<Tx>, error: unknown): boolean {
  return core.store.locks?.isCrowded(error) === true
}

export function tellCrowded<Tx>(
  { store, settings }: Core<Tx>,
  task: Extract<Signal, { kind: 'crowded' }>['task'],
  error: unknown,
): void {
  if (!store.locks?.isCrowded(error)) return
  const locks = store.locks.crowded()
  if (locks !== null) settings.observe({ kind: 'crowded', task, locks })
}

/** A transaction that locks so many messages, as soon as there is room for them. */
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
