import { effectivelyOnce, type Consumer, type RedriveStatus, type Signal } from '../../src/index.ts'
import { changing, type Rows } from '../../src/store/leased/rows.ts'
import type { Store } from '../../src/store/store.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { CONSUMER, type RedriveWorld, type SomeOnce, type SomeTx } from './world.ts'

/** Opens a service on a store without transactions. Its consumer calls a provider that honours the derived key. */
export async function openLeasedWorld(
  store: Store<undefined>,
  rows: Rows,
  close: () => Promise<void> = async () => {},
): Promise<RedriveWorld> {
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'redrive', store, guard: 'off', observe }) as unknown as SomeOnce
  const broker = memoryBroker()
  const consumers = new Set<Consumer>()
  /** What the provider did, by its key. */
  const effects = new Map<string, { readonly id: string; readonly note: string | null }>()
  const outside: { id: string; note: string | null }[] = []
  const setConsumer = (field: string, change: (value: never) => unknown): Promise<void> =>
    changing(rows, CONSUMER, async (draft) => draft.put(field, change((await draft.get(field)) as never)))
  const world: RedriveWorld = {
    once,
    store: store as never,
    broker,
    signals,
    sql: () => Promise.resolve([]),
    fails: () => null,
    pauseMs: 0,
    consumer(options = {}) {
      const consumer = once.consumer(
        CONSUMER,
        { from: broker.source, lease: '5s', attempts: 1, ...options },
        {
          'step.made': async (event, { step, commit }) => {
            const data = (event.data ?? {}) as { broken?: boolean; note?: string }
            if (world.pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, world.pauseMs))
            const error = world.fails(event.id, data)
            if (error) throw error
            await step('apply', async ({ key }) => {
              if (!effects.has(key)) effects.set(key, { id: event.id, note: data.note ?? '' })
            })
            return commit(() => {})
          },
        },
      )
      consumers.add(consumer)
      return consumer
    },
    async park(...messages) {
      const before = world.fails
      world.fails = () => new Error('the receipt printer is on fire')
      broker.publish(...messages)
      await world.consumer().drain()
      world.fails = before
    },
    async applied() {
      const times = new Map<string, number>()
      for (const { id } of await world.written()) times.set(id, (times.get(id) ?? 0) + 1)
      return times
    },
    async write(_tx: SomeTx, id, note) {
      outside.push({ id, note: note ?? null })
    },
    written: async () => [...effects.values(), ...outside],
    forget: () => setConsumer('consumer', (row: object) => ({ ...row, rememberForMs: 0 })),
    unseen: () => setConsumer('seen', (at: number) => at - 3_600_000),
    async ended(id) {
      let last: RedriveStatus | undefined
      for await (const status of once.redrive.watch(id, { everyMs: 20, signal: AbortSignal.timeout(60_000) }))
        last = status
      if (!last || last.state === 'running') throw new Error(`redrive ${id} did not end: ${JSON.stringify(last)}`)
      return last
    },
    async close() {
      for (const consumer of consumers) await consumer.stop()
      await once.close()
      await close()
    },
  }
  return world
}
