import type { Delivery, Subscription } from '../../source/source.ts'

/** Returns `count` deliveries, or fewer when the time is over. */
export async function take(from: Subscription, count: number, waitMs: number): Promise<Delivery[]> {
  const taken: Delivery[] = []
  const until = performance.now() + waitMs
  const { signal } = new AbortController()
  while (taken.length < count && performance.now() < until) {
    const left = Math.max(1, until - performance.now())
    taken.push(...(await from.receive({ max: count - taken.length, waitMs: left, signal })))
  }
  return taken
}
