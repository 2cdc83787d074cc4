import { Admin } from '@platformatic/kafka'
import type pg from 'pg'
import { makeTopic } from '../broker/support/kafka.ts'
import { Processes } from '../broker/support/processes.ts'
import { makeSteps } from '../broker/support/steps.ts'
import { openWorld as openInbox } from '../consumer/world.ts'
import { openWorld as openOutbox, prepare } from '../relay/world.ts'
import { readLog, type LogRecord } from './kafka-log.ts'
import { inputOf, outputOf, pricedId, type Place, type Stage } from './world.ts'

const STAGES: readonly Stage[] = ['relay', 'job', 'inbox']
const AGGREGATES = 100
const PAUSE_MS_MAX = 400
const LOOK_MS = 250
/** It is over when nothing was applied for so long. An open transaction of a dead process holds readers for less. */
const QUIET_MS = 75_000

export interface PipelineParams {
  /** Kafka's address. */
  readonly url: string
  /** An empty PostgreSQL database. */
  readonly database: string
  readonly events: number
  /** How many processes are killed with SIGKILL, of all stages together. */
  readonly kills: number
  /** The processes of each stage. */
  readonly processes: number
}

export interface PipelineResult {
  readonly events: number
  readonly kills: number
  /** Events without an effect. */
  readonly lost: number
  /** Events with more than one effect. */
  readonly twice: number
  /** Effects without an event. */
  readonly foreign: number
  /** Effects that did not see the one before them, of the same aggregate. */
  readonly orderBreaks: number
  /** Committed results of the job beyond one for each committed record that it read. */
  readonly resultsTwice: number
  /** Committed records without a result. */
  readonly resultsLost: number
  /** Records that the relays committed beyond one for each event: their processes died before they noted the commit. */
  readonly sentTwice: number
  /** Records of aborted transactions in the two topics, which a reader must not be given. */
  readonly aborted: number
  readonly seconds: number
}

/** Outbox, relay, Kafka, a job with Kafka's transactions, Kafka, inbox: while processes of each stage are killed. */
export async function pipelineChaos({
  url,
  database,
  events,
  kills,
  processes,
}: PipelineParams): Promise<PipelineResult> {
  const began = performance.now()
  const at: Place = { url, database, place: `engines_${Math.random().toString(36).slice(2)}` }
  const admin = new Admin({ clientId: 'engines', bootstrapBrokers: [new URL(url).host], retries: 3, retryDelay: 200 })
  const outbox = await openOutbox(database)
  await prepare(outbox)
  const inbox = await openInbox(database)
  const numbers = Array.from({ length: processes }, (_, i) => i)
  const all = STAGES.flatMap((stage) => numbers.map((i) => processesOf(stage, at, `${stage}-${i}`)))
  try {
    for (const topic of [inputOf(at), outputOf(at)]) await makeTopic(admin, topic)
    await Promise.all(all.map((one) => one.start()))
    const portions = kills + 1
    for (let portion = 0; portion < portions; portion++) {
      const count = Math.round((events * (portion + 1)) / portions) - Math.round((events * portion) / portions)
      const made = makeSteps(outbox, { count, aggregates: AGGREGATES })
      if (portion < kills) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * PAUSE_MS_MAX))
        // The stages take turns, so that each of them is hit.
        const stage = portion % STAGES.length
        await all[stage * processes + Math.floor(Math.random() * processes)]?.replaceOne()
      }
      await made
    }
    await untilQuiet(outbox.pool, events)
    await Promise.all(all.map((one) => one.end()))
    return {
      events,
      kills: all.reduce((sum, one) => sum + one.kills, 0),
      ...(await effectsOf(outbox.pool)),
      ...(await topicsOf(at)),
      seconds: Math.round((performance.now() - began) / 100) / 10,
    }
  } finally {
    await Promise.all(all.map((one) => one.end()))
    await admin.deleteTopics({ topics: [inputOf(at), outputOf(at)] }).catch(() => {})
    await admin.close()
    await Promise.all([outbox.close(), inbox.close()])
  }
}

function processesOf(stage: Stage, { database, url, place }: Place, id: string): Processes {
  return new Processes('../../engines/stage-process', [stage, database, url, place, id])
}

async function untilQuiet(pool: pg.Pool, events: number): Promise<void> {
  let [last, changedAt] = [-1, performance.now()]
  while (performance.now() - changedAt < QUIET_MS) {
    const applied = await countOf(pool, '(select distinct aggregate, n from applied) a')
    if (applied >= events) return
    if (applied !== last) [last, changedAt] = [applied, performance.now()]
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}

const EXPECTED = '(select c.id as aggregate, g as n from counter c, generate_series(1, c.n) g)'

/** The business tables alone: the numbers that the outbox side gave, and the rows of the inbox side. */
async function effectsOf(pool: pg.Pool): Promise<Pick<PipelineResult, 'lost' | 'twice' | 'foreign' | 'orderBreaks'>> {
  return {
    lost: await countOf(pool, `(select * from ${EXPECTED} e except select aggregate, n from applied) l`),
    twice: await countOf(pool, '(select aggregate, n from applied group by 1, 2 having count(*) > 1) t'),
    foreign: await countOf(pool, `(select aggregate, n from applied except select * from ${EXPECTED} e) f`),
    orderBreaks: await countOf(pool, 'applied where before <> n - 1'),
  }
}

async function topicsOf(
  at: Place,
): Promise<Pick<PipelineResult, 'resultsTwice' | 'resultsLost' | 'sentTwice' | 'aborted'>> {
  const sent = await readLog(at.url, inputOf(at))
  const results = await readLog(at.url, outputOf(at))
  const [inputs, made] = [committedIds(sent), committedIds(results)]
  let [resultsTwice, resultsLost] = [0, 0]
  for (const [id, copies] of inputs) {
    const difference = (made.get(pricedId(id)) ?? 0) - copies
    resultsTwice += Math.max(0, difference)
    resultsLost += Math.max(0, -difference)
  }
  const countOfAll = (ids: ReadonlyMap<string, number>): number => [...ids.values()].reduce((sum, n) => sum + n, 0)
  return {
    resultsTwice,
    resultsLost,
    sentTwice: countOfAll(inputs) - inputs.size,
    aborted: sent.length + results.length - countOfAll(inputs) - countOfAll(made),
  }
}

/** How often each event was committed. */
function committedIds(records: readonly LogRecord[]): Map<string, number> {
  const ids = new Map<string, number>()
  for (const { fate, value } of records) {
    if (fate !== 'committed') continue
    const { id } = JSON.parse(value) as { id: string }
    ids.set(id, (ids.get(id) ?? 0) + 1)
  }
  return ids
}

async function countOf(pool: pg.Pool, from: string): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(`select count(*)::int4 as n from ${from}`)
  return rows[0]?.n ?? 0
}
