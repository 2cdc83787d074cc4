/**
 * How a relay keeps up with slow sinks, beside a plain loop that calls the same sink with the same events, as many at a
 * time. Fails where progress is under 90 % of the loop's, an event takes more than 1.05 calls, a stop takes longer than its
 * 10 s, or something that the sink took was not recorded.
 *
 * npm run pace -- [--seconds N] [--sinks inProcess,webhook] [--delays 1,10,100,1000] [--together] [--json]
 */
import { parseArgs } from 'node:util'
import { isMissing, startServers } from '../scripts/servers/index.ts'
import { isSlowKind, measurePace, SLOW_KINDS, type Pace } from './groups/pace.ts'

const PROGRESS_MIN = 0.9
const CALLS_MAX = 1.05
const STOP_MS_MAX = 10_000
const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean', default: false } as const
const { values } = parseArgs({
  options: { seconds: TEXT, sinks: TEXT, delays: TEXT, together: FLAG, json: FLAG },
})

function problemsOf(pace: Pace): string[] {
  const { progress, callsPerEvent, stopMs, unrecorded } = pace
  return [
    ...(progress < PROGRESS_MIN ? [`progress ${progress}`] : []),
    ...(callsPerEvent > CALLS_MAX ? [`${callsPerEvent} calls an event`] : []),
    ...(stopMs > STOP_MS_MAX ? [`a stop of ${stopMs} ms`] : []),
    ...(unrecorded > 0 ? [`${unrecorded} taken and not recorded`] : []),
  ].map((problem) => `${pace.sink} at ${pace.delayMs} ms: ${problem}`)
}

async function main(): Promise<number> {
  const kinds = values.sinks?.split(',') ?? SLOW_KINDS
  const delays = (values.delays?.split(',') ?? ['1', '10', '100', '1000']).map(Number)
  const seconds = Number(values.seconds ?? 20)
  if (!kinds.every(isSlowKind)) throw new Error(`--sinks are of ${SLOW_KINDS.join(', ')}`)
  if (![...delays, seconds].every((value) => value > 0)) throw new Error('--delays and --seconds are above 0')
  const servers = await startServers(['postgres'])
  try {
    if (isMissing(servers.postgres)) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const found: Pace[] = []
    for (const sink of kinds) {
      for (const delayMs of delays) {
        const pace = await measurePace(servers.postgres.url, { sink, delayMs, seconds, together: values.together })
        console.error(JSON.stringify(pace))
        found.push(pace)
      }
    }
    console.log(values.json ? JSON.stringify(found) : found)
    const problems = found.flatMap(problemsOf)
    for (const problem of problems) console.error(`MISSED: ${problem}`)
    return problems.length > 0 ? 1 : 0
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
