import type pg from 'pg'
import { sightingLine, type Sighting, type Violation } from './violations.ts'

/** The record of a sink: events in the order of their first arrival, with their aggregates. */
export type FirstCalls = ReadonlyMap<string, { readonly aggregate: string; readonly at: number; readonly by: string }>

export interface Evidence {
  readonly hook: FirstCalls
  /** The events that asynchronous promotions dropped. The failover is responsible for their order. */
  readonly dropped: ReadonlySet<string>
}

export interface Verdict {
  readonly events: number
  readonly lost: number
  readonly twice: number
  readonly orderBreaks: number
}

interface Order {
  readonly event: string
  readonly aggregate: string
  readonly n: number
  readonly at: Date
}

/** Queries the database. */
export type Rows = <R extends pg.QueryResultRow>(text: string, values?: unknown[]) => Promise<R[]>

/**
 * Verifies the outcome of every business row, by plain SQL and by the record of the sink. It uses no code of the
 * product.
 */
export async function judge(
  rows: Rows,
  { hook, dropped }: Evidence,
): Promise<Verdict & { readonly violations: readonly Violation[] }> {
  const orders = await rows<Order & { key: string }>('select * from orders order by at')
  const effects = await rows<Order & { who: string }>('select * from effects order by seq')
  const applied = effects.map(({ at, who, ...of }, place) => ({ ...of, place, at: at.getTime(), by: who }))
  const called = sightingsOf(hook, orders)
  const ordered = orders.map(({ at, key, ...of }, place) => ({ ...of, place, at: at.getTime(), by: key }))
  const lost = lostOf(ordered, { effects: applied, hook: called })
  const twice = [...doubled('effects', applied, ({ event }) => event), ...doubled('orders', ordered, ({ by }) => by)]
  const known = new Set(orders.filter(({ event }) => !dropped.has(event)).map(({ event }) => event))
  const breaks = [...breaksOf('effects', applied, known), ...breaksOf('hook', called, known)]
  return {
    events: orders.length,
    lost: lost.length,
    twice: twice.length,
    orderBreaks: breaks.length,
    violations: [...lost, ...twice, ...breaks],
  }
}

/** An event without a business row gets number 0, because a failover dropped its transaction. */
function sightingsOf(hook: FirstCalls, orders: readonly Order[]): Sighting[] {
  const numbers = new Map(orders.map(({ event, n }) => [event, n]))
  return [...hook].map(([event, { aggregate, at, by }], place) => ({
    event,
    aggregate,
    n: numbers.get(event) ?? 0,
    place,
    at,
    by,
  }))
}

function lostOf(orders: readonly Sighting[], seen: Readonly<Record<string, readonly Sighting[]>>): Violation[] {
  const places = Object.entries(seen).map(([where, list]) => ({
    where,
    list,
    ids: new Set(list.map((of) => of.event)),
  }))
  return orders.flatMap((order) => {
    const missing = places.filter(({ ids }) => !ids.has(order.event))
    if (missing.length === 0) return []
    const where = missing.map((place) => place.where).join(' and ')
    const around = places.flatMap((place) => [place.where, ...neighbours(order, place.list)])
    return [{ ...of('lost', where, order), seen: ['ordered', ...neighbours(order, orders), ...around] }]
  })
}

/** The rows in excess of the one that is allowed. */
function doubled(where: string, rows: readonly Sighting[], by: (row: Sighting) => string): Violation[] {
  const seen = new Set<string>()
  return rows.flatMap((row) => {
    const isFirst = !seen.has(by(row))
    seen.add(by(row))
    if (isFirst) return []
    return [{ ...of('twice', where, row), seen: rows.filter((other) => by(other) === by(row)).map(sightingLine) }]
  })
}

/** Events that arrived after a later event of their aggregate, in the order of their first occurrence. */
function breaksOf(where: string, sightings: readonly Sighting[], known: ReadonlySet<string>): Violation[] {
  const highest = new Map<string, number>()
  const seen = new Set<string>()
  return sightings.flatMap((sighting) => {
    const { event, aggregate, n } = sighting
    if (!known.has(event) || seen.has(event)) return []
    seen.add(event)
    const before = highest.get(aggregate) ?? 0
    highest.set(aggregate, Math.max(n, before))
    if (n > before) return []
    return [{ ...of('orderBreak', where, sighting), seen: neighbours(sighting, sightings) }]
  })
}

function of(kind: Violation['kind'], where: string, { event, aggregate, n, at }: Sighting): Omit<Violation, 'seen'> {
  return { kind, where, event, aggregate, n, at }
}

/** The preceding and following events of the same aggregate, and those seen next to this one. */
function neighbours(sighting: Sighting, all: readonly Sighting[]): string[] {
  const same = all.filter(({ aggregate }) => aggregate === sighting.aggregate)
  const here = same.findIndex(({ event }) => event === sighting.event)
  const near = same.filter(
    ({ n }, index) => Math.abs(n - sighting.n) <= 2 || (here >= 0 && Math.abs(index - here) <= 2),
  )
  return near.map(sightingLine)
}

/** The orders without their effect, and those without their webhook call. */
export interface Pending {
  readonly effects: readonly string[]
  readonly calls: readonly string[]
}

/** Checks the orders of a period. Effects are checked only for orders of `type`. */
export async function pending(
  rows: Rows,
  hook: FirstCalls,
  orders: { readonly since: Date; readonly until: Date; readonly type?: string },
): Promise<Pending> {
  const found = await rows<{ event: string; type: string; applied: boolean }>(
    `select o.event, o.type, exists (select 1 from effects e where e.event = o.event) as applied
       from orders o where o.at > $1 and o.at <= $2`,
    [orders.since, orders.until],
  )
  const asked = found.filter(({ type }) => orders.type === undefined || type === orders.type)
  return {
    effects: asked.filter(({ applied }) => !applied).map(({ event }) => event),
    calls: found.filter(({ event }) => !hook.has(event)).map(({ event }) => event),
  }
}

/** The last signs of life of one process, in milliseconds of one clock. */
export interface Life {
  readonly progressedAt: number
  /** When the process last reported a failure. */
  readonly toldAt: number
}

/**
 * Whether a process made no progress and reported no failure within the bound, while other processes made progress. A
 * lasting failure must be reported again within the bound.
 */
export function isSilent(process: Life, others: readonly Life[], now: number, boundMs: number): boolean {
  const isWork = others.some(({ progressedAt }) => now - progressedAt < boundMs / 4)
  return isWork && now - Math.max(process.progressedAt, process.toldAt) > boundMs
}
