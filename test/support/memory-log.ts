import { event } from '../../src/index.ts'
import { LOG_FEATURES, LogReading, logSubscription, type LogDelivery } from '../../src/source/log-reading.ts'
import type { EventsOf, PulledSource } from '../../src/source/source.ts'

export const events = { 'step.made': event<{ n: number }>(({ n }) => `a${n % 3}`) }
export const PARTITION = 'steps/0'

const ALWAYS = { keptMs: 60_000, hold: async (): Promise<boolean> => true, leave: async (): Promise<void> => {} }

/** A log in memory: it forgets nothing, whatever the database does. */
export function logOf(
  entries: readonly number[],
  reads: bigint[] = [],
  turn: typeof ALWAYS = ALWAYS,
): PulledSource<EventsOf<typeof events>> {
  const deliveryOf = (n: number, at: number): LogDelivery => {
    const data = { n }
    const what = { id: `e${n}`, source: 'log', type: 'step.made', aggregate: `a${n % 3}`, previous: null, headers: {} }
    const position = { partition: PARTITION, offset: String(at), next: String(at + 1) }
    const of = { ...what, at: new Date(0), event: { ...what, data }, body: JSON.stringify(data), position }
    return of as unknown as LogDelivery
  }
  const log = {
    async read(from: bigint, { max }: { max: number }): Promise<readonly LogDelivery[]> {
      reads.push(from)
      const found = entries.map(deliveryOf).slice(Number(from), Number(from) + max)
      if (found.length === 0) await new Promise((resolve) => setTimeout(resolve, 20))
      return found
    },
    close: async (): Promise<void> => {},
  }
  return {
    kind: 'pulled',
    name: 'log',
    types: ['step.made'],
    redeliversFor: '7d',
    holdsFor: 'connection',
    features: LOG_FEATURES,
    open: async ({ prefetch, positions, signal }) =>
      logSubscription(new LogReading({ log, turn, partition: async () => PARTITION, prefetch, positions, signal })),
  }
}
