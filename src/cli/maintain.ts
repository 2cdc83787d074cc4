import { REDRIVE_KEPT_MS, REPLAY_MS_DEFAULT, RESEND_MS_MAX, RESEND_MS_MIN, SWEEP_LIMIT_DEFAULT } from '../limits.ts'
import { milliseconds, type Duration } from '../duration.ts'
import { checkNamespace } from '../key/parse-key.ts'
import type { PoolClientLike, PoolLike } from '../store/postgres/pg.ts'
import type { Arguments } from './arguments.ts'
import { using, type Run } from './report.ts'
import { alarmText } from './signals.ts'
import { EXIT } from './usage.ts'

export const migrate: Run = async (given) => {
  const { adopt } = given.values
  const params = adopt === undefined ? {} : { adopt: checkNamespace(adopt) }
  if (given.values.sql) {
    // PostgreSQL's SQL needs neither a database nor its client.
    const sql = given.url
      ? await using(given, async ({ store }) => store.schema.sql(params))
      : await postgresSql(given, params)
    return { text: sql.trimEnd(), data: { sql } }
  }
  return using(given, async ({ store, where }) => {
    const { from, to } = await store.schema.migrate(params)
    const text =
      from === to ? `${where} is at version ${to}: nothing to do` : `${where} went from version ${from} to ${to}`
    return { text, data: { from, to } }
  })
}

async function postgresSql({ schema }: Arguments, params: { readonly adopt?: string }): Promise<string> {
  const { pgStore } = await import('../store/postgres/pg.ts')
  const nobody = (): Promise<never> => Promise.reject(new Error('no database'))
  const nowhere = { connect: nobody, query: nobody, totalCount: 0, idleCount: 0 } as PoolLike<PoolClientLike>
  return pgStore(nowhere, schema === undefined ? {} : { schema }).schema.sql(params)
}

const SKIPPED = 'another process is sweeping, and will do the rest'

/** Sweeps until nothing is left, and reports each round, because a first sweep may take long. */
export const sweep: Run = (given, { progress, signal }) => {
  // Only the program knows its `resendFor`, so events stay unless the option is given.
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
      alarms: [] as readonly string[],
      skipped: false,
      troubles: [] as readonly string[],
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
      total.alarms = swept.miscounted.map(alarmText)
      total.skipped = swept.skipped
      total.troubles = swept.troubles.map(({ message }) => message)
      finished = swept.finished && (inbox?.finished ?? true)
      if (!finished)
        progress(`${total.records} records, ${total.events} events, ${total.inbox} inbox rows removed so far`)
    }
    total.redrives = (await store.redrives?.sweep({ keepForMs: REDRIVE_KEPT_MS })) ?? 0
    const { records, events, inbox, letters, suspended, partitionsDropped, partitionsBusy } = total
    const sum = `${records} records removed, ${events} events, ${inbox} inbox rows and marks, ${letters} settled dead letters; ${suspended} operations now unknown; ${partitionsDropped} partitions dropped, ${partitionsBusy} busy`
    const text = [sum, ...(total.skipped ? [SKIPPED] : []), ...total.alarms, ...total.troubles].join('\n')
    const isFine = total.alarms.length + total.troubles.length === 0
    return { text, data: total, exit: isFine ? EXIT.done : EXIT.attention }
  })
}
