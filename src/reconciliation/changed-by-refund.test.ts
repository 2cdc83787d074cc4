import { expect, it } from 'vitest'
import { effectivelyOnce } from '../once/once.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { reconciliation } from './reconciliation.ts'

interface Charge {
  readonly order: string
  readonly charge?: string
  refunded?: boolean
}

/** A refund marks the provider's entry, or removes it from the list of what is charged. */
it.each(['marks', 'removes'])(
  'a page whose refund %s the entry is resumed, and every refund is made once',
  async (how) => {
    const once = effectivelyOnce({ namespace: 'shop', store: memoryStore(), guard: 'off', sweep: false })
    let theirs: Charge[] = ['o1 a', 'o1 b', 'o1 c', 'o2 d', 'o2 e'].map((text) => {
      const [order = '', charge = ''] = text.split(' ')
      return { order, charge }
    })
    const refunds: string[] = []
    let isDown = true
    const charges = reconciliation<Charge, Charge>({
      once,
      name: 'charges',
      ours: () => [{ order: 'o1' }, { order: 'o2' }],
      theirs: () => structuredClone(theirs),
      key: ({ order }) => order,
      compensate: {
        double: async ({ theirs: { charge = '' } }) => {
          if (charge === 'e' && isDown) throw new Error('the provider is down')
          refunds.push(charge)
          if (how === 'removes') theirs = theirs.filter((of) => of.charge !== charge)
          else for (const of of theirs) of.refunded ||= of.charge === charge
        },
      },
    })
    const run = { by: 'ada', why: 'INC-21', canary: 0, pauseAt: 1 }
    expect((await charges.run(run)).state).toBe('paused')
    isDown = false
    expect(await charges.run(run)).toMatchObject({ state: 'done', double: 3, compensated: 3 })
    expect(refunds).toEqual(['b', 'c', 'e'])
    await once.close()
  },
)
