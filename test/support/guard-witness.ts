import type { Signal } from '../../src/observe/signal.ts'

export interface Told {
  readonly code: string
  readonly line: string
}

/** What the guard says while a test runs: on the process's warning channel, and to `observe`. */
export interface Witness {
  readonly observe: (signal: Signal) => void
  readonly signals: Told[]
  /** Warnings arrive a tick after they were made. */
  warnings(): Promise<Told[]>
  stop(): void
}

export function witness(): Witness {
  const signals: Told[] = []
  const warnings: Told[] = []
  const heard = (warning: Error & { code?: string }): void => {
    if (warning.name === 'EffectivelyOnce') warnings.push({ code: warning.code ?? '', line: warning.message })
  }
  process.on('warning', heard)
  return {
    signals,
    observe: (signal) => {
      if (signal.kind === 'guard') signals.push({ code: signal.code, line: signal.message })
    },
    async warnings() {
      await new Promise((resolve) => setImmediate(resolve))
      return warnings
    },
    stop: () => process.off('warning', heard),
  }
}
