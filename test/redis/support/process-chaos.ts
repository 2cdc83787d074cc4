import type { Reply } from '../../chaos/workers.ts'
import { Worker } from '../../chaos/workers.ts'
import type { RedisClientKind, RedisServerKind } from '../../support/redis-clients.ts'
import { REDIS_POINTS } from './crash-points.ts'
import { openProvider, type Provider } from './provider.ts'

const PROCESSES = 4
const CALLERS = 200
const LEASE = '1s'
const RETRIES = 200
const PAUSE_MS = 100
/** How long a holder stays inside its operation, so that it can be stopped there. */
const HOLD_MS = 100
/** How often a stop that came too late is tried again. */
const STOPS = 20

export interface ProcessChaos {
  readonly url: string
  readonly server: RedisServerKind
  readonly client: RedisClientKind
  readonly rounds: number
}

/** Counts of what must not happen. All are 0 unless a guarantee was violated. */
export interface ProcessResult {
  readonly operations: number
  /** Operations with more than one effect, or none. */
  readonly effects: number
  /** Operations whose callers got different answers. */
  readonly answers: number
  /** Holders that completed after another attempt had taken over. */
  readonly zombies: number
}

/** Races, SIGKILL at every crash point, and SIGSTOP past the lease, with real processes. */
export async function processChaos(params: ProcessChaos): Promise<ProcessResult> {
  const provider = await openProvider()
  const program = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url)
  const { url, server, client } = params
  const env = { CHAOS_CLIENT: client, CHAOS_SERVER: server, CHAOS_PROVIDER: provider.url }
  let workers: Worker[] = []
  const start = async (): Promise<Worker[]> => {
    workers = workers.filter((worker) => worker.alive)
    const missing = Array.from({ length: PROCESSES - workers.length }, () => Worker.start(url, program, env))
    workers.push(...(await Promise.all(missing)))
    return workers
  }
  const result = { operations: 0, effects: 0, answers: 0, zombies: 0 }
  const judge = (key: string, replies: readonly Reply[]): void => {
    result.operations++
    if (provider.calls(key).size !== 1) result.effects++
    const values = replies.flatMap(({ outcome, value }) => (outcome === 'value' ? [JSON.stringify(value)] : []))
    if (new Set(values).size !== 1) result.answers++
  }
  const run = `${process.pid}-${Date.now()}`
  try {
    for (let round = 0; round < params.rounds; round++) {
      await race(await start(), `race ${run} ${round}`, judge)
      for (const crashAt of REDIS_POINTS) {
        const [first, ...others] = (await start()) as [Worker, ...Worker[]]
        const key = `${crashAt} ${run} ${round}`
        const died = await first.charge({ key, amount: 1, lease: LEASE, crashAt: crashAt as never })
        if (died.outcome !== 'died') throw new Error(`the process survived '${crashAt}': ${JSON.stringify(died)}`)
        judge(key, await Promise.all(others.map((worker) => retried(worker, key))))
      }
      for (let tries = 0, tookOver = false; !tookOver; tries++) {
        if (tries === STOPS) throw new Error(`no holder was stopped in time in ${STOPS} tries`)
        const key = `stopped ${run} ${round} ${tries}`
        const [late, taken, isTaken] = await stopped(await start(), key)
        judge(key, [taken])
        tookOver = isTaken
        if (tookOver && late.outcome === 'value') result.zombies++
      }
    }
    return result
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()))
    await (provider satisfies Provider).close()
  }
}

async function race(workers: Worker[], key: string, judge: (key: string, of: Reply[]) => void): Promise<void> {
  const callers = Array.from({ length: CALLERS }, (_, i) =>
    workers[i % PROCESSES]!.charge({ key, amount: 1, holdMs: 50, lease: '10s' }),
  )
  judge(key, await Promise.all(callers))
}

/**
 * The holder is stopped inside its operation until another process has taken over. On a busy machine the signal may come
 * after the holder has completed. Then the other process replays the answer, and has not taken over.
 */
async function stopped(
  [holder, other]: Worker[],
  key: string,
): Promise<readonly [late: Reply, taken: Reply, isTaken: boolean]> {
  const inside = holder!.inside()
  const late = holder!.charge({ key, amount: 1, lease: LEASE, holdMs: HOLD_MS })
  await inside
  holder!.signal('SIGSTOP')
  let isTaken = false
  void other!.inside().then(() => (isTaken = true))
  const taken = await retried(other!, key)
  holder!.signal('SIGCONT')
  return [await late, taken, isTaken]
}

/** Retries as a client does, until there is an answer. */
async function retried(worker: Worker, key: string): Promise<Reply> {
  for (let tries = 0; tries < RETRIES; tries++) {
    const reply = await worker.charge({ key, amount: 1, lease: LEASE })
    if (reply.outcome === 'value') return reply
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
  throw new Error(`no answer after ${RETRIES} retries of ${key}`)
}
