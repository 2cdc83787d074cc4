import type {
  ListParkedParams,
  ParkedEvent,
  ParkedLine,
  ParkedLinesParams,
  SettledParked,
  SettleParkedParams,
} from '../../parked.ts'
import type { Work } from '../database/connection.ts'
import { heldKey, shardKey } from '../database/rows.ts'
import type { HeldRow } from '../database/rows.ts'
import { promoteHeld, unparkOrphans } from './held.ts'

export function listParked(work: Work, params: ListParkedParams): ParkedEvent[] {
  return parkedRows(work, params)
    .filter(({ seq }) => seq > params.after)
    .sort((a, b) => a.seq - b.seq)
    .flatMap(({ shard, seq, aggregateId, attempts, reason, heldAt }) => {
      const event = work.database.events.find(shard, seq)
      if (event === undefined || (params.id !== null && event.id !== params.id)) return []
      const { id, type, createdAt } = event
      const times = { publishedAt: createdAt / 1000, heldAt: heldAt / 1000 }
      return { shard, seq, id, aggregateId, type, attempts, reason, ...times }
    })
    .slice(0, params.limit)
}

export function parkedLines(work: Work, params: ParkedLinesParams): ParkedLine[] {
  const lines = new Map<string, ParkedLine>()
  for (const { shard, aggregateId, seq, reason } of parkedRows(work, params)) {
    const key = shardKey(aggregateId, shard)
    const known = lines.get(key)?.head ?? null
    const head = reason === null ? known : Math.min(seq, known ?? seq)
    lines.set(key, { shard, aggregateId, head })
  }
  const { after } = params
  return [...lines.values()]
    .sort(byPlace)
    .filter((line) => after === null || byPlace(line, after) > 0)
    .slice(0, params.limit)
}

/** Waits for a settlement of this shard, and blocks the next one. Returns false when the destination was removed. */
export async function lockShard({ database, tx }: Work, destination: string, shard: number): Promise<boolean> {
  return (await database.shards.lock(shardKey(destination, shard), tx, 'update')) !== undefined
}

export async function settleParked(work: Work, params: SettleParkedParams): Promise<SettledParked> {
  const { destination, shard, aggregateIds, release, skip, limit } = params
  const given = new Set(skip)
  const wanted = new Set(aggregateIds)
  const skipped = await changeParked(
    work,
    destination,
    ({ seq, shard: of }) => of === shard && given.has(seq),
    GIVEN_UP,
  )
  const isHead = (row: HeldRow): boolean => row.shard === shard && wanted.has(row.aggregateId) && row.reason !== null
  const heads = release ? await changeParked(work, destination, isHead, AS_NEW) : 0
  const places = aggregateIds.map((aggregateId) => ({ shard, aggregateId }))
  const orphans = await unparkOrphans(work, destination, places, limit)
  await promoteHeld(work, destination, places)
  return { released: heads + orphans, skipped, more: orphans === limit }
}

const GIVEN_UP = { state: 'skipped', dueAt: null } as const
const AS_NEW = { state: 'waiting', attempts: 0, tried: 0, dueAt: null, reason: null } as const

async function changeParked(
  work: Work,
  destination: string,
  isMeant: (row: HeldRow) => boolean,
  change: Partial<HeldRow>,
): Promise<number> {
  const { database, tx } = work
  let changed = 0
  for (const row of parkedRows(work, { destination, aggregateId: null })) {
    if (!isMeant(row)) continue
    const key = heldKey(destination, row.shard, row.seq)
    const known = await database.held.lock(key, tx, 'update', ({ state }) => state === 'parked')
    if (known === undefined) continue
    database.held.put(key, { ...known, ...change }, tx)
    changed += 1
  }
  return changed
}

function parkedRows(
  { database, tx }: Work,
  { destination, aggregateId }: Pick<ListParkedParams, 'destination' | 'aggregateId'>,
): HeldRow[] {
  return database.held
    .rows(tx)
    .flatMap(([, row]) =>
      row.destination === destination && row.state === 'parked' && (aggregateId ?? row.aggregateId) === row.aggregateId
        ? [row]
        : [],
    )
}

type Place = Pick<ParkedLine, 'shard' | 'aggregateId'>

function byPlace(a: Place, b: Place): number {
  return a.shard - b.shard || (a.aggregateId < b.aggregateId ? -1 : Number(a.aggregateId > b.aggregateId))
}
