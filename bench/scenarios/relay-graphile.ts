import { Logger, makeWorkerUtils, run, type AddJobsJobSpec, type WorkerEvents } from 'graphile-worker'
import { EventEmitter } from 'node:events'
import type pg from 'pg'

const CHUNK = 5_000

/** The settings its documentation gives its own best figures with. */
const PRESET = {
  worker: {
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    pollInterval: 100,
  },
}

/** A line for every job would be most of its work. */
const SILENT = new Logger(() => () => {})

/** graphile-worker on as many jobs that do nothing, until the last one is deleted. Jobs per second. */
export async function workAll(url: string, pool: pg.Pool, jobs: number): Promise<number> {
  const utils = await makeWorkerUtils({ connectionString: url, logger: SILENT })
  try {
    await utils.migrate()
    for (let from = 0; from < jobs; from += CHUNK) {
      const specs: AddJobsJobSpec[] = Array.from({ length: Math.min(CHUNK, jobs - from) }, (_, i) => ({
        identifier: 'nothing',
        payload: { id: from + i, account: `account-${i % 1_000}`, amount: i % 1_000 },
      }))
      await utils.addJobs(specs)
    }
  } finally {
    await utils.release()
  }
  await pool.query('vacuum (analyze) graphile_worker._private_jobs')
  const events = new EventEmitter() as WorkerEvents
  const state = { done: 0 }
  const startedAt = performance.now()
  const runner = await run({
    connectionString: url,
    taskList: {
      nothing: () => {
        state.done += 1
      },
    },
    events,
    noHandleSignals: true,
    preset: PRESET,
    logger: SILENT,
  })
  try {
    for (;;) {
      const all = state.done >= jobs
      if (all && (await left(pool)) === 0) break
      await new Promise((resolve) => setTimeout(resolve, all ? 1 : 5))
    }
    return (jobs * 1000) / (performance.now() - startedAt)
  } finally {
    await runner.stop()
  }
}

async function left(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ n: number }>('select 1::int4 as n from graphile_worker._private_jobs limit 1')
  return rows.length
}
