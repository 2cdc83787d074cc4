import { REDIS_CLIENTS } from '../../support/redis-clients.ts'
import type { RunningServer } from '../../../scripts/servers/index.ts'
import { ClusterControl, until } from './cluster-control.ts'
import { keyOf, Payer } from './payer.ts'

const HOLD_MS = 300
/** Every so many rounds the primary is killed. In the others it hands over to its replica. */
const KILL_EVERY = 10

export interface ClusterResult {
  readonly rounds: number
  readonly failovers: number
  readonly kills: number
  readonly moves: number
  /** Operations with more than one effect. */
  readonly effects: number
  /** What happened beneath these operations. */
  readonly broken: readonly string[]
  /** Operations whose callers got different answers. */
  readonly answers: number
}

/**
 * Each round runs one operation from four instances with both clients, while its primary changes or its slot moves. The
 * replicas are in sync before, and `replicas: 1` waits for them. A failover has ended before a slot is moved.
 */
export async function clusterChaos(nodes: readonly RunningServer[], rounds: number): Promise<ClusterResult> {
  const control = new ClusterControl(nodes.map(({ url }) => Number(new URL(url).port)))
  const effects = new Map<string, Set<string>>()
  const url = nodes[0]?.url ?? ''
  const open = { server: 'redisCluster', url, replicas: 1 } as const
  const payers = await Promise.all(
    [...REDIS_CLIENTS, ...REDIS_CLIENTS].map((client) => Payer.open({ ...open, client }, effects)),
  )
  const result = { rounds: 0, failovers: 0, kills: 0, moves: 0, effects: 0, answers: 0, broken: [] as string[] }
  const run = `${process.pid}-${Date.now()}`
  try {
    for (let round = 0; round < rounds; round++) {
      await control.settled()
      const operation = `cluster ${run} ${round}`
      const paying = payers.map((payer) => payer.retried(operation, HOLD_MS))
      const trouble = changeBeneath(control, nodes, operation, round, result)
      const [values, what] = await Promise.all([Promise.all(paying), trouble])
      result.rounds++
      if (effects.get(operation)?.size !== 1) {
        result.effects++
        result.broken.push(`round ${round}: ${what}`)
      }
      if (new Set(values).size !== 1) result.answers++
    }
    return result
  } finally {
    await Promise.all(payers.map((payer) => payer.close()))
    control.close()
  }
}

async function changeBeneath(
  control: ClusterControl,
  nodes: readonly RunningServer[],
  operation: string,
  round: number,
  result: { failovers: number; kills: number; moves: number },
): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, (round * 37) % HOLD_MS))
  const key = keyOf(operation)
  const { primary, replica } = await control.placeOf(key)
  if (round % 2 === 1) {
    await control.move(key)
    result.moves++
    return 'a moved slot'
  }
  const node = nodes.find(({ url }) => Number(new URL(url).port) === primary.port)
  if (round % KILL_EVERY === 0 && node?.halt && node.resume) {
    await node.halt('SIGKILL')
    result.kills++
    // A primary that comes back before its replica is promoted serves what its disk has, which may be older: see
    // copied-server.ts.
    await until(async () => (await control.placeOf(key)).primary.port !== primary.port)
    await node.resume()
    return 'a killed primary'
  }
  if (replica) {
    await control.promote(replica.port)
    await control.promoted(replica.port)
  }
  result.failovers++
  return 'a failover'
}
