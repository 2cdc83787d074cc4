import { expect, it } from 'vitest'
import { event, inProcessSink } from '../../src/index.ts'
import { describeEmbedded } from '../support/stores.ts'

interface Step {
  readonly aggregate: string
  readonly n: number
}

const events = { 'step.made': event<Step>(({ aggregate }) => aggregate) }

describeEmbedded('past a parked one', (place) => {
  for (let round = 0; round < 4; round++)
    it(`nothing goes ${round}`, async () => {
      const once = place.once({ events, namespace: `past-${round}` } as never)
      const seen: string[] = []
      const to = inProcessSink(
        ({ data }) => {
          const { aggregate, n } = data as Step
          if (n === 1) throw new Error('refused')
          seen.push(`${aggregate}${n}`)
        },
        { name: 'past' },
      )
      const relay = await once.relay({ to, attempts: 1 }).start()
      const names = Array.from({ length: 30 }, (_, i) => `k${i}/`)
      let keys = 0
      await Promise.all(
        names.map(async (aggregate) => {
          for (const n of [1, 2, 3])
            await once.run({ scope: 's', key: `${round} ${keys++}`, input: null }, ({ publish }) =>
              (publish as (type: string, data: Step) => Promise<string>)('step.made', { aggregate, n }),
            )
        }),
      )
      await new Promise((resolve) => setTimeout(resolve, 700))
      await relay.stop()
      expect(seen).toEqual([])
    })
})
