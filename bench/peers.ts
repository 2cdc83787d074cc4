/**
 * What others cost for the same work, beside ours, in one run: an idempotent charge through HTTP, and an event that is
 * published with a charge and consumed. The peers are installed from bench/peers/package.json.
 *
 * npm run bench:peers -- [--json] [--write] [--rounds N] [--seconds S] [--events N] [--only http|queues] [--postgres 15|18] [--node 22|24]
 */
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { isMissing, startServers } from '../scripts/servers/index.ts'
import { measureHttpPeers } from './peers/http/measure.ts'
import { installPeers, versionOf } from './peers/packages.ts'
import { HTTP_PEERS, QUEUE_PEERS } from './peers/peers.ts'
import { measureQueues } from './peers/queues/measure.ts'
import { asText, type PeersReport } from './peers/report.ts'
import { storeResults } from './results/store.ts'
import { isRunning, NODE_VERSIONS, runUnder } from './support/node.ts'
import { note, runProgram } from './support/program.ts'
import { POSTGRES_VERSIONS, startPostgres } from './support/server.ts'
import { Redis } from 'ioredis'

const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean', default: false } as const
const { values } = parseArgs({
  options: {
    json: FLAG,
    write: FLAG,
    rounds: { ...TEXT, default: '7' },
    seconds: { ...TEXT, default: '1' },
    events: { ...TEXT, default: '2000' },
    only: TEXT,
    postgres: { ...TEXT, default: '18' },
    /** pg-boss and graphile-worker need 22 or later. */
    node: { ...TEXT, default: '24' },
  },
})

async function main(): Promise<number> {
  const node = NODE_VERSIONS.find((version) => version === values.node)
  const wanted = POSTGRES_VERSIONS.find((version) => version === values.postgres)
  const [rounds, seconds, events] = [values.rounds, values.seconds, values.events].map(Number) as [
    number,
    number,
    number,
  ]
  if (node === undefined) throw new Error(`--node is one of ${NODE_VERSIONS.join(', ')}`)
  if (wanted === undefined) throw new Error(`--postgres is one of ${POSTGRES_VERSIONS.join(', ')}`)
  if (![rounds, seconds, events].every((value) => value > 0)) throw new Error('numbers are above 0')
  if (!isRunning(node)) return runUnder(node)
  await installPeers()
  const load = loadavg()[0] ?? Number.NaN
  const server = await startPostgres(wanted)
  const others = await startServers(['redis'])
  try {
    if (isMissing(others.redis)) throw new Error(`no Redis: ${others.redis.missing}`)
    const options = { rounds, seconds, events, progress: note }
    const { only } = values
    const report: PeersReport = {
      measured: {
        rounds,
        seconds,
        events,
        postgres: server.version,
        redis: await redisVersion(others.redis.url),
        node: process.versions.node,
        cores: cpus().length,
        load: Math.round(load * 10) / 10,
      },
      versions: await versions(),
      ...(only !== 'queues' && { http: await measureHttpPeers(server, others.redis.url, options) }),
      ...(only !== 'http' && { queues: await measureQueues(server, options) }),
    }
    if (values.write) storeResults((results) => ({ ...results, peers: report }))
    console.log(values.json ? JSON.stringify(report, null, 2) : asText(report))
    return 0
  } finally {
    await server.stop()
    await others.stop()
  }
}

async function versions(): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const { packageName } of [...Object.values(HTTP_PEERS), ...Object.values(QUEUE_PEERS)])
    if (packageName !== null) found[packageName] = await versionOf(packageName)
  return found
}

async function redisVersion(url: string): Promise<string> {
  const redis = new Redis(url)
  try {
    return /redis_version:(\S+)/.exec(await redis.info('server'))?.[1] ?? ''
  } finally {
    redis.disconnect()
  }
}

await runProgram(main)
