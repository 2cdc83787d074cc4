import { writeSync } from 'node:fs'
import { isCrashPoint, type CrashPoint } from '../settings.ts'

const STDOUT = 1
const PATIENCE_MS = 20_000
let armed: CrashPoint | undefined

/** A command of the parent: take over as process number `boot`, at this port; or die at a point. */
export interface Order {
  readonly boot?: number
  readonly port?: number
  readonly arm?: CrashPoint | null
}

/** The process is loaded, and waits until the parent lets it replace a dead process. */
export function takeOver(): Promise<{ boot: number; port: number }> {
  // If the parent is gone, end this process.
  process.on('disconnect', () => process.exit(0))
  // Ctrl-C reaches every process of the terminal. The parent decides when this process ends.
  process.on('SIGINT', () => {})
  process.send?.({ loaded: true })
  return new Promise((resolve) => {
    process.on('message', ({ boot, port = 0, arm }: Order) => {
      if (boot !== undefined) resolve({ boot, port })
      armed = isCrashPoint(arm) ? arm : undefined
    })
  })
}

/**
 * A point at which the process can be killed. If it is armed, the process reports it and stops, with all its locks,
 * until it is killed.
 */
export function pass(point: CrashPoint): void {
  if (armed !== point) return
  writeSync(STDOUT, `${point}\n`)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PATIENCE_MS)
  process.exit(3) // nobody came
}

/** Reports to the parent that the service is ready, and its address. */
export function ready(port = 0): void {
  process.send?.({ port })
}
