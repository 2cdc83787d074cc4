/**
 * Reads recorded streams through servers that are killed, and reconnects. Prints the counts, and fails when a byte was
 * lost, doubled, reordered or rewritten. Then produces large streams for clients that read nothing, and fails when the
 * server's memory grows with them.
 *
 * npm run chaos:streams -- [--streams N] [--chunks M] [--kills K] [--reconnects R] [--large MiB] [--seed S] [--json]
 */
import { judged, readCounts } from './chaos-run.ts'
import { startServers } from './servers/index.ts'
import { streamsChaos } from '../test/streams/chaos.ts'
import { streamMemory } from '../test/streams/memory.ts'

const TIMEOUT_MS = 3_600_000
const MEMORY_MIB_MAX = 512
/** Of a server that produces large streams: less than a quarter of what they contain. */
const GROWTH_MIB_MAX = 128
const LARGE_STREAMS = 16
/** The least share of the reconnects that must find a stream that is still being produced. */
const LIVE_SHARE = 0.5

async function main(): Promise<number> {
  const counts = {
    streams: [1_000, 1],
    chunks: [1_000, 1],
    kills: [50, 0],
    reconnects: [5_000, 0],
    large: [512, 0],
    seed: [1, 0],
  } as const
  const { json, large, ...size } = readCounts(counts)
  const servers = await startServers(['postgres'])
  try {
    if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const database = servers.postgres.url
    if (!json) console.error(`${size.streams} streams of ${size.chunks} chunks, seed ${size.seed}`)
    const result = await streamsChaos({ database, ...size, timeoutMs: TIMEOUT_MS })
    const mibEach = Math.ceil(large / LARGE_STREAMS)
    const memory = await streamMemory({ database, streams: LARGE_STREAMS, mibEach, timeoutMs: TIMEOUT_MS })
    console.log(json ? JSON.stringify({ ...result, memory }) : { ...result, memory })
    const { wrong, rewritten, memoryMiB, kills, reconnects, live, broken, failed } = result
    return judged({
      'readers with wrong bytes': wrong,
      'streams that were rewritten': rewritten,
      [`MiB above ${MEMORY_MIB_MAX}`]: Math.max(0, memoryMiB - MEMORY_MIB_MAX),
      'kills too few': size.kills - kills,
      'reconnects too few': size.reconnects - reconnects,
      'reconnects to live streams too few': Math.ceil(size.reconnects * LIVE_SHARE) - live,
      // Kills that nobody noticed prove nothing.
      'kills without a broken connection or a failed stream': size.kills > 0 && (broken === 0 || failed === 0) ? 1 : 0,
      'readers of large streams with wrong bytes': memory.wrong,
      [`MiB of growth above ${GROWTH_MIB_MAX}`]: Math.max(0, memory.grownMiB - GROWTH_MIB_MAX),
    })
  } finally {
    await servers.stop()
  }
}

process.exitCode = await main()
