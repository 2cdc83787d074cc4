import { Processes } from '../broker/support/processes.ts'
import { QUEUE } from './table-source.ts'
import { openWorld } from './world.ts'

export type PlantedFlaw = 'none' | 'ackFirst' | 'rowAfterEffect'

export interface ChaosParams {
  /** An empty PostgreSQL database. */
  readonly database: string
  readonly events: number
  readonly processes: number
  readonly kills: number
  readonly timeoutMs: number
  readonly flaw?: PlantedFlaw
}

export interface ChaosResult {
  readonly deliveries: number
  readonly kills: number
  readonly lost: number
  readonly twice: number
  /** Of `ordered` events, which come in random order. */
  readonly inversions: number
  readonly published: number
  readonly deadLetters: number
  readonly seconds: number
}

const PER_AGGREGATE = 20

/** Every event 1 to 5 times in random order, half of them `ordered`, to processes that are killed at random. */
export async function consumerChaos(params: ChaosParams): Promise<ChaosResult> {
  const began = performance.now()
  const { events, flaw = 'none' } = params
  const world = await openWorld(params.database)
  const consumers = new Processes('../../consumer/consumer-process', [params.database, flaw])
  const aggregates = Math.ceil(events / PER_AGGREGATE)
  try {
    await world.pool.query(QUEUE)
    await world.pool.query('truncate queue, applied')
    // 'o…' aggregates are ordered: each names its predecessor, the first an empty one.
    await world.pool.query(
      `insert into queue (body)
       select json_build_object('specversion', '1.0', 'id', e.agg || '-' || e.n, 'source', 'chaos', 'type', 'step.made', 'subject', e.agg,
           'previous', case when e.ordered then case when e.n = 1 then '' else e.agg || '-' || (e.n - 1) end end,
           'data', json_build_object('aggregate', e.agg, 'n', e.n))::text
         from (select i % $2::int < $2::int / 2 as ordered, i / $2::int + 1 as n,
                      case when i % $2::int < $2::int / 2 then 'o' else 'u' end || i % $2::int as agg
                 from generate_series(0, $1::int - 1) i) e,
              lateral (select generate_series(1, 1 + floor(random() * 5)::int + 0 * e.n)) copies`,
      [events, aggregates],
    )
    const deliveries = await world.count('queue')
    await consumers.start(params.processes)
    const left = (): Promise<number> => world.count('queue')
    const deadline = performance.now() + params.timeoutMs
    for (let at = await left(); at > 0 && performance.now() < deadline; at = await left()) {
      const due = Math.floor(((deliveries - at) / deliveries) * (params.kills + 1))
      if (consumers.kills < Math.min(params.kills, due)) await consumers.replaceOne()
      await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 60))
    }
    await consumers.end()
    return {
      deliveries,
      kills: consumers.kills,
      lost: events - (await world.count('(select distinct id from applied) a')),
      twice: await world.count('(select id from applied group by id having count(*) > 1) a'),
      inversions: await world.count(`(
        select n, lag(n) over (partition by aggregate order by seq) as before from applied where aggregate like 'o%'
      ) a where before >= n`),
      published: await world.count(
        `(select distinct payload->>'id' from effectively_once.event where type = 'step.seen') e`,
      ),
      deadLetters: await world.count('effectively_once.dead_letter'),
      seconds: Math.round((performance.now() - began) / 100) / 10,
    }
  } finally {
    await consumers.end()
    await world.close()
  }
}
