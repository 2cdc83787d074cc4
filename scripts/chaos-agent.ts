/**
 * Kills an agent N times between "charge" and "answer", and its tool server N times. Prints the counts, and fails unless
 * every kill happened, the provider charged once, and the agent got its answer.
 *
 * npm run chaos:agent -- [--kills N] [--seed S] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { agentChaos } from '../test/mcp/agent-chaos.ts'

const TIMEOUT_MS = 1_800_000

async function main(): Promise<number> {
  const { kills, seed, json } = readCounts({ kills: [50, 0], seed: [1, 0] })
  if (!json) console.error(`${kills} kills, seed ${seed}`)
  const result = await agentChaos({ kills, seed, timeoutMs: TIMEOUT_MS })
  console.log(json ? JSON.stringify(result) : result)
  const { agentKills, toolServerKills, asked, charges, rows, answered } = result
  return judged({
    'kills of the agent missing': Math.abs(kills - agentKills),
    'kills of the tool server missing': Math.abs(kills - toolServerKills),
    'kills inside the step missing': Math.abs(2 * Math.ceil(kills / 2) + 1 - asked),
    'charges beside the one': Math.abs(charges - 1),
    'rows beside the one': Math.abs(rows - 1),
    'wrong answers': answered ? 0 : 1,
  })
}

process.exitCode = await main()
