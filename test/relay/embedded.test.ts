import { expect, it } from 'vitest'
import { event, inProcessSink, type OutgoingEvent, type Signal } from '../../src/index.ts'
import { describeEmbedded } from '../support/stores.ts'
import { judge, until, type Step } from './world.ts'

const events = { 'step.made': event<Step>((step) => step.aggregate) }
const stepOf = (sent: OutgoingEvent): Step => sent.data as Step

describeEmbedded('the relay', (place) => {
  let keys = 0
  function service(observe: (signal: Signal) => void = () => {}) {
    const once = place.once({ observe, events } as never)
    const last = new Map<string, number>()
    return {
      once,
      last,
      async make(aggregate: string, options?: { notBefore: Date }): Promise<void> {
        const n = (last.get(aggregate) ?? 0) + 1
        last.set(aggregate, n)
        await once.run({ scope: 's', key: `k${keys++}`, input: null }, async ({ publish }) => {
          await (publish as (type: string, data: Step, o?: object) => Promise<string>)(
            'step.made',
            { aggregate, n },
            options,
          )
        })
      },
    }
  }

  it('sends what was committed, in order, once per destination', async () => {
    const { once, make, last } = service()
    for (let i = 0; i < 40; i++) await make(`a${i % 7}`)
    const seen: Step[] = []
    const relay = once.relay({ to: inProcessSink((sent) => void seen.push(stepOf(sent)), { name: 'first' }) })
    expect(await relay.drain()).toBe(40)
    expect(judge(seen, last)).toEqual({ lost: 0, inversions: 0, duplicates: 0 })
    await make('a0')
    expect(await relay.drain()).toBe(1)
    expect(await relay.drain()).toBe(0)
  })

  it('holds up only the aggregate that fails, parks it, and honours notBefore', async () => {
    const signals: Signal[] = []
    const { once, make } = service((signal) => void signals.push(signal))
    const seen: Step[] = []
    let broken = true
    const to = inProcessSink(
      (sent) => {
        const step = stepOf(sent)
        if (step.aggregate === 'park') throw new Error('never')
        if (step.aggregate === 'wait' && broken) throw new Error('not now')
        if (['park', 'wait', 'good', 'late'].includes(step.aggregate)) seen.push(step)
      },
      { name: 'second' },
    )
    for (const aggregate of ['park', 'wait', 'good', 'park', 'wait', 'good']) await make(aggregate)
    await make('late', { notBefore: new Date(Date.now() + 2_000) })
    await make('late')
    const relay = await once.relay({ to, attempts: 7, lease: '2s' }).start()
    await until(() => seen.length === 3)
    broken = false
    await until(() => seen.length === 6)
    expect(seen.filter(({ aggregate }) => aggregate === 'wait').map(({ n }) => n)).toEqual([1, 2])
    expect(seen.filter(({ aggregate }) => aggregate === 'late').map(({ n }) => n)).toEqual([2, 1])
    await until(() => signals.some(({ kind }) => kind === 'parked'))
    await relay.stop()
    expect(signals.filter(({ kind }) => kind === 'parked')).toHaveLength(1)
  })
})
