import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'

const TASKS = [
  'nothing',
  'operations',
  'a relay',
  'a relay that is paused',
  'a relay whose webhook is away',
  'a relay that was stopped',
  'an outbox consumer',
  'an outbox consumer that was stopped',
  'a pulled consumer',
  'a pulled consumer whose message waits for a retry',
  'a pulled consumer that redrives',
  'a pushed consumer that was never started',
  'a pushed consumer',
  'a pushed consumer that its first request started',
  'a pushed consumer that was stopped',
  'a pushed consumer that is starting',
  'a pushed consumer that redrives',
]

/** What a process that has nothing else to do may take to end, once everything is closed. */
const ENDED_MS = 1_000
/** What runs may end first. */
const CLOSED_MS = 5_000
/** Who lives longer is killed, and says nothing. */
const KILLED_MS = 25_000

interface Ending {
  readonly closedInMs: number
  readonly endedInMs: number
}

function endingOf(task: string, store: string, where: string): Promise<Ending> {
  const script = fileURLToPath(new URL('./ending-process.ts', import.meta.url))
  const argv = ['--import', 'tsx', script, task, store, where]
  return new Promise((resolve, reject) => {
    execFile(process.execPath, argv, { timeout: KILLED_MS, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      if (error) reject(new Error(`'${task}' did not end by itself: ${stderr}`, { cause: error }))
      else resolve(JSON.parse(stdout) as Ending)
    })
  })
}

function cases(store: string, where: () => string): void {
  it.each(TASKS)('of %s', async (task) => {
    const { closedInMs, endedInMs } = await endingOf(task, store, where())
    expect(closedInMs).toBeLessThan(CLOSED_MS)
    expect(endedInMs).toBeLessThan(ENDED_MS)
  })
}

describe('a process ends by itself after close(), memory', () => {
  cases('memory', () => '')
})

describeSqlite('a process ends by itself after close()', (lab) => {
  cases('sqlite', () => lab.file())
})

describePostgres('a process ends by itself after close()', (database) => {
  cases('pg', () => database.url)
})
