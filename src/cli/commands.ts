import { REPLAY_MS_DEFAULT, SWEEP_LIMIT_DEFAULT } from '../limits.ts'
import type { Arguments } from './arguments.ts'
import { openStore, type Opened } from './open-store.ts'

/** What a command found out: `text` for people, `data` for --json. */
export interface Report {
  readonly text: string
  readonly data: object
}

export async function migrate(given: Arguments): Promise<Report> {
  if (given.sql) {
    const sql = await using(given, async ({ store }) => store.schema.sql())
    return { text: sql.trimEnd(), data: { sql } }
  }
  return using(given, async ({ store, where }) => {
    const { from, to } = await store.schema.migrate()
    const text =
      from === to ? `${where} is at version ${to}: nothing to do` : `${where} went from version ${from} to ${to}`
    return { text, data: { from, to } }
  })
}

/** Until nothing is left, with a line for every round: a first sweep of a neglected table may take a while. */
export async function sweep(given: Arguments, progress: (line: string) => void): Promise<Report> {
  return using(given, async ({ store }) => {
    const total = { records: 0, suspended: 0, partitionsDropped: 0, partitionsBusy: 0 }
    for (let finished = false; !finished;) {
      const swept = await store.retention.sweep({ limit: SWEEP_LIMIT_DEFAULT, replayForMs: REPLAY_MS_DEFAULT })
      total.records += swept.records
      total.suspended += swept.suspended
      total.partitionsDropped += swept.partitionsDropped
      total.partitionsBusy = swept.partitionsBusy
      finished = swept.finished
      if (!finished) progress(`${total.records} records removed so far`)
    }
    const { records, suspended, partitionsDropped, partitionsBusy } = total
    const text = `${records} records removed, ${suspended} now unknown, ${partitionsDropped} partitions dropped, ${partitionsBusy} busy`
    return { text, data: total }
  })
}

async function using<T>(given: Arguments, work: (opened: Opened) => Promise<T>): Promise<T> {
  const opened = await openStore(given)
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}
