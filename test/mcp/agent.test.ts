import { expect, it } from 'vitest'
import { agentChaos } from './agent-chaos.ts'

it('charges once, however often the agent and its tools are killed between charge and answer', async () => {
  const { agentKills, toolServerKills, ...result } = await agentChaos({ kills: 2, seed: 3, timeoutMs: 120_000 })
  expect({ agentKills, toolServerKills }).toEqual({ agentKills: 2, toolServerKills: 2 })
  // Each attempt that died inside the step asked the provider, under the same key.
  expect(result).toMatchObject({ charges: 1, rows: 1, answered: true, asked: 3 })
}, 180_000)
