import type pg from 'pg'
import { INSERT_CHARGE, newCharge, type Charged } from '../../support/charge.ts'
import { inTransaction, openPool } from '../../support/database.ts'
import { sender } from '../../support/statement.ts'
import { loadPeer } from '../packages.ts'
import { Countdown, INSERT_RECEIPT, POOL, type OpenQueue } from './queue.ts'

interface Helpers {
  withPgClient(work: (client: pg.PoolClient) => Promise<unknown>): Promise<unknown>
}
interface Peer {
  readonly Logger: new (make: () => () => void) => object
  makeWorkerUtils(options: object): Promise<{ migrate(): Promise<void>; release(): Promise<void> }>
  run(options: {
    pgPool: pg.Pool
    taskList: Record<string, (payload: Charged, helpers: Helpers) => Promise<void>>
    noHandleSignals: true
    preset: object
    logger: object
  }): Promise<{ stop(): Promise<void> }>
}

/** The settings its documentation gives its own best figures with. */
const PRESET = {
  worker: {
    concurrentJobs: 24,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    pollInterval: 100,
  },
}
const ADD_JOB = `select graphile_worker.add_job('receipt', payload => $1)`

/** Jobs added by SQL in the charge's transaction. A handler commits before its job is marked as done. */
export const openGraphileWorker: OpenQueue = async (url) => {
  const { Logger, makeWorkerUtils, run } = await loadPeer<Peer>('graphile-worker')
  // A line for every job would be most of its work.
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ connectionString: url, logger })
  await utils.migrate()
  await utils.release()
  const pool = openPool(url, POOL)
  // Without one it warns each time it starts.
  pool.on('connect', (client) => client.on('error', () => {}))
  const send = sender('prepared')
  const done = new Countdown()
  return {
    pools: [pool],
    publish: () =>
      inTransaction(pool, async (client) => {
        const { account, amount } = newCharge()
        const { rows } = await send(client, INSERT_CHARGE, [account, amount])
        await send(client, ADD_JOB, [JSON.stringify({ id: rows[0].id, account, amount })])
      }),
    async consume(count) {
      const all = done.until(count)
      const receipt = async ({ id, account }: Charged, helpers: Helpers): Promise<void> => {
        await helpers.withPgClient((client) => send(client, INSERT_RECEIPT, [id, account]))
        done.add(1)
      }
      const runner = await run({ pgPool: pool, taskList: { receipt }, noHandleSignals: true, preset: PRESET, logger })
      await all
      // It waits for the jobs that are still to be marked as done.
      await runner.stop()
    },
    close: () => pool.end(),
  }
}
