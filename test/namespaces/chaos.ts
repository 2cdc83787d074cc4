import pg from 'pg'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { Dice } from '../../src/testing/sim/dice.ts'
import { Processes } from '../broker/support/processes.ts'

const SERVICES = ['shop', 'billing'] as const
const SHARES = 2
const LOOK_MS = 250

export interface ServicesChaosParams {
  /** An empty PostgreSQL database. */
  readonly database: string
  /** Of each service. */
  readonly events: number
  readonly kills: number
  readonly seed: number
  readonly timeoutMs: number
}

type OfEach = Readonly<Record<(typeof SERVICES)[number], number>>

export interface ServicesChaosResult {
  readonly events: number
  /** Effects of each service's consumer, and what its destination was sent: of its own events, each counted once. */
  readonly applied: OfEach
  readonly sent: OfEach
  /** Own events that were not applied, or not sent. */
  readonly lost: number
  /** Events that were applied more than once. */
  readonly twice: number
  /** Events that were applied by, or sent for, the service they do not belong to. */
  readonly foreign: number
  readonly kills: number
  readonly seconds: number
}

/**
 * Two services on one database, with equal names of consumer, event, aggregates and destination, each with processes that
 * publish, relay and consume, and are killed at random. What became of it is counted by plain SQL.
 */
export async function servicesUnderKills(params: ServicesChaosParams): Promise<ServicesChaosResult> {
  const { database, events, kills, seed, timeoutMs } = params
  const began = performance.now()
  const pool = new pg.Pool({ connectionString: database, max: 2 })
  pool.on('error', () => {})
  const count = async (sql: string): Promise<number> =>
    Number((await pool.query<{ n: number }>(`select count(*)::int4 as n from ${sql}`)).rows[0]?.n)
  await pgStore(pool).schema.migrate()
  await pool.query(TABLES)
  const dice = new Dice(seed)
  const running = SERVICES.flatMap((service) =>
    Array.from({ length: SHARES }, (_, share) => {
      const args = [database, service, String(events), String(share), String(SHARES)]
      return new Processes('../../namespaces/service-process', args)
    }),
  )
  let killed = 0
  try {
    await Promise.all(running.map((one) => one.start()))
    const total = events * SERVICES.length
    const through = async (): Promise<number> =>
      Math.min(await count('applied'), await count('(select distinct id from sent) x'))
    for (let done = 0; done < total || killed < kills; done = await through()) {
      if (performance.now() - began > timeoutMs) break
      // Spread over the run: one for each part of the events that is through.
      if (killed < kills && done >= (total * (killed + 1)) / (kills + 1)) {
        await (running[dice.below(running.length)] as Processes).replaceOne()
        killed++
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS * (0.5 + dice.next())))
    }
  } finally {
    await Promise.all(running.map((one) => one.end()))
  }
  const ofEach = async (table: string): Promise<OfEach> => {
    const counts = SERVICES.map(async (service) => {
      const own = `(select distinct n from ${table} where service = '${service}' and source = '${service}') x`
      return [service, await count(own)] as const
    })
    return Object.fromEntries(await Promise.all(counts)) as OfEach
  }
  try {
    const [applied, sent] = [await ofEach('applied'), await ofEach('sent')]
    const missing = (of: OfEach): number => SERVICES.reduce((sum, service) => sum + events - of[service], 0)
    return {
      events,
      applied,
      sent,
      lost: missing(applied) + missing(sent),
      twice: await count('(select 1 from applied group by id having count(*) > 1) x'),
      foreign: (await count('applied where service <> source')) + (await count('sent where service <> source')),
      kills: killed,
      seconds: Math.round((performance.now() - began) / 100) / 10,
    }
  } finally {
    await pool.end()
  }
}

const TABLES = `create table made (service text not null, n int4 not null, primary key (service, n));
  create table applied (service text not null, source text not null, id text not null, n int4 not null);
  create table sent (service text not null, source text not null, id text not null, n int4 not null)`
