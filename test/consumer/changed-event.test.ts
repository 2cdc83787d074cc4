import { expect, it } from 'vitest'
import { describeStores, serviceOn } from '../relay/service.ts'
import { until } from '../support/until.ts'

const EVENTS = 20

describeStores('handlers that change the event they are given', (place) => {
  for (const lease of [undefined, '30s'] as const)
    it(`get it as it was published each time, ${lease ? 'leased' : 'in batches'}`, { timeout: 60_000 }, async () => {
      const { once, make } = serviceOn(place)
      await make(Array.from({ length: EVENTS }, (_, n) => `a${n}`))
      const [runs, made] = [new Map<string, number>(), new Map<string, number>()]
      const on = async (event: { data: { aggregate: string; n: number } }, op: unknown): Promise<unknown> => {
        const { data } = event
        data.n++
        const ran = (runs.get(data.aggregate) ?? 0) + 1
        runs.set(data.aggregate, ran)
        // It takes its batch with it.
        if (data.aggregate === 'a7' && ran < 3) throw new Error('not yet')
        made.set(data.aggregate, data.n)
        return lease ? (op as { commit(work: () => void): Promise<unknown> }).commit(() => {}) : undefined
      }
      const consumer = once.consumer(`changing ${lease}`, { from: once.outbox, lease }, { 'step.made': on as never })
      await consumer.start()
      await until(() => made.size === EVENTS, 30_000)
      await consumer.stop()
      expect(runs.get('a7')).toBe(3)
      expect([...made.values()]).toEqual(Array.from({ length: EVENTS }, () => 2))
    })
})
