import { effectivelyOnce, event, inProcessSink, type Once, type Signal } from '../../src/index.ts'
import type { SqlStore } from '../../src/store/store.ts'

export const events = {
  'note.made': event<{ to: string; n: number }>(({ to }) => to),
  'link.made': event<{ to: string; n: number }>(({ to }) => to, { ordered: true }),
}

export interface Service {
  readonly name: string
  // oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
  readonly once: Once<any, typeof events>
  readonly signals: Signal[]
  /** Publishes `count` events whose data says whose they are. */
  publish(count: number, type?: keyof typeof events, to?: string): Promise<void>
  /** What its relay to the destination 'hook' sends now. */
  sent(): Promise<string[]>
  close(): Promise<void>
}

/** One service of several on a store: all of them use the same names for everything. */
// oxlint-disable-next-line no-explicit-any -- as above
export function service(name: string, store: SqlStore<any>): Service {
  const signals: Signal[] = []
  const once = effectivelyOnce({
    namespace: name,
    store,
    events,
    guard: 'off',
    sweep: false,
    observe: (signal) => void signals.push(signal),
  })
  let n = 0
  return {
    name,
    once,
    signals,
    async publish(count, type = 'note.made', to = 'anna') {
      for (let i = 0; i < count; i++) {
        n++
        const data = { to, n }
        await once.run({ scope: 's', key: `${type}-${n}`, input: null }, async ({ publish }) => {
          await publish(type, data)
        })
      }
    },
    async sent() {
      const sent: string[] = []
      const sink = inProcessSink(({ source, data }) => void sent.push(`${source} ${(data as { n: number }).n}`), {
        name: 'hook',
      })
      await once.relay({ to: sink }).drain()
      return sent
    },
    close: async () => void (await once.close()),
  }
}

export const numbered = (name: string, from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, i) => `${name} ${from + i}`)
