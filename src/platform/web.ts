import type { Clock } from './clock.ts'
import type { Random } from './random.ts'

/** Chance for browsers, Bun, Deno and workers. */
export const webRandom: Random = { next: () => Math.random(), uuid: () => crypto.randomUUID() }

/** For waits of the client, which are all held and at most a week long. */
export const webClock: Clock = {
  now: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    return () => clearTimeout(timer)
  },
}

/** The time of day in milliseconds. Unlike `Clock` it can be compared after a restart, and somebody may set it. */
export function timeOfDay(): number {
  return Date.now()
}

export async function webSha256(bytes: ArrayBuffer): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}
