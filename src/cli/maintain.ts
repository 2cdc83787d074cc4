import { REDRIVE_KEPT_MS, REPLAY_MS_DEFAULT, RESEND_MS_MAX, RESEND_MS_MIN, SWEEP_LIMIT_DEFAULT } from '../limits.ts'
import { milliseconds, type Duration } from '../duration.ts'
import { using, type Run } from './report.ts'

export const migrate: Run = (given) =>
  using(given, async ({ store, where }) => {
    if (given.values.sql) {
      const sql = store.schema.sql()
      return { text: sql.trimEnd(), data: { sql } }
    }
    const { from, to } = await store.schema.migrate()
    const text =
      from === to ? `${where} is at version ${to}: nothing to do` : `${where} went from version ${from} to ${to}`
    return { text, data: { from, to } }
  })

/** Until nothing is left, with a line for every round: a first sweep of a neglected table may take a while. */
export const sweep: Run = (given, { progress, signal }) => {
  // Only the program knows how long it wants to be able to resend: unless told, events stay.
  const asked = given.values['resend-for'] as Duration | undefined
  const limits = { option: '--resend-for', min: RESEND_MS_MIN, max: RESEND_MS_MAX }
  const resendForMs = asked === undefined ? undefined : milliseconds(asked, RESEND_MS_MIN, limits)
  return using(given, async ({ store }) => {
    const total = {
      records: 0,
      events: 0,
      inbox: 0,
      letters: 0,
      redrives: 0,
      suspended: 0,
      partitionsDropped: 0,
      partitionsBusy: 0,
      miscounted: 0,
    }
    const bounds = { limit: SWEEP_LIMIT_DEFAULT, signal }
    for (let finished = false; !finished && !signal.aborted;) {
      const swept = await store.retention.sweep({
        ...bounds,
        replayForMs: REPLAY_MS_DEFAULT,
        resendForMs,
      })
      const inbox = await store.inbox?.sweep(bounds)
      total.records += swept.records
      total.events += swept.events
      total.inbox += (inbox?.rows ?? 0) + (inbox?.marks ?? 0)
      total.letters += inbox?.letters ?? 0
      total.suspended += swept.suspended
      total.partitionsDropped += swept.partitionsDropped
      total.partitionsBusy = swept.partitionsBusy
      total.miscounted = swept.miscounted.length
      finished = swept.finished && (inbox?.finished ?? true)
      if (!finished)
        progress(`${total.records} records, ${total.events} events, ${total.inbox} inbox rows removed so far`)
    }
    total.redrives = (await store.redrives?.sweep({ keepForMs: REDRIVE_KEPT_MS })) ?? 0
    const { records, events, inbox, letters, suspended, partitionsDropped, partitionsBusy } = total
    const text = `${records} records removed, ${events} events, ${inbox} inbox rows and marks, ${letters} settled dead letters; ${suspended} operations now unknown; ${partitionsDropped} partitions dropped, ${partitionsBusy} busy`
    return { text, data: total }
  })
}
