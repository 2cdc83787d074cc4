import { expect, it } from 'vitest'
import { clientChaos } from './chaos/chaos.ts'

const TIMEOUT_MS = 120_000

it.each(['file', 'sqlite'] as const)(
  'each order is charged once, whoever is killed: %s',
  async (storage) => {
    const run = { calls: 120, kills: 1, seed: 7, storage, faultShare: 0.3, withinMs: TIMEOUT_MS }
    const { broken, serverKills, clientKills, charges, refusals, typedRefusals } = await clientChaos(run)
    expect(broken).toEqual(Object.fromEntries(Object.keys(broken).map((what) => [what, 0])))
    expect({ serverKills, clientKills, charges, refusals, typedRefusals }).toEqual({
      serverKills: 1,
      clientKills: 1,
      charges: 116,
      refusals: 2,
      typedRefusals: 2,
    })
  },
  TIMEOUT_MS,
)
