import { REDRIVE_KEPT_MS } from '../../limits.ts'
import {
  CONSUMER,
  copyField,
  FIRST,
  headField,
  idField,
  itemField,
  LAST,
  numbers,
  redriveConsumer,
  redriveField,
  REDRIVES_MADE,
  REGISTRY,
  restField,
  SWEPT,
  type ConsumerRow,
  type HeadRow,
  type RedriveRow,
} from './fields.ts'
import { headsOf, parkedFields } from './letters.ts'
import { changing, reading, type Draft, type Rows } from './rows.ts'

const SWEEP_EVERY_MS = 3_600_000
const PAGE = 100

/** Removes old settled letters and ended redrives of a consumer, once in an hour. A running consumer calls it. */
export async function sweepConsumer(rows: Rows, consumer: string): Promise<void> {
  const isDue = await changing(rows, consumer, async (draft) => {
    const swept = (await draft.get<number>(SWEPT)) ?? 0
    if (draft.now - swept < SWEEP_EVERY_MS) return false
    draft.put(SWEPT, draft.now)
    return true
  })
  if (!isDue) return
  await sweepLetters(rows, consumer)
  await sweepRedrives(rows, consumer)
}

export async function sweepLetters(rows: Rows, consumer: string): Promise<void> {
  const [row] = await reading<ConsumerRow>(rows, consumer, [CONSUMER])
  const { now } = await rows.read(consumer, [])
  if (!row) return
  const isOld = ({ state, settledAt, parkedAt }: HeadRow): boolean =>
    state !== 'parked' && (settledAt ?? parkedAt) < now - row.lettersForMs
  const [first, last] = await reading<number>(rows, consumer, [FIRST, LAST])
  const heads = await headsOf(rows, consumer, numbers(first ?? 1, last ?? 0))
  const old = heads.filter(({ head }) => isOld(head)).map(({ no }) => no)
  const gone = new Set<number>()
  for (let at = 0; at < old.length; at += PAGE) {
    const page = old.slice(at, at + PAGE)
    for (const no of await changing(rows, consumer, (draft) => removeSome(draft, page, isOld))) gone.add(no)
  }
  const next = heads.find(({ no }) => !gone.has(no))?.no ?? (last ?? 0) + 1
  if (next === (first ?? 1)) return
  await changing(rows, consumer, async (draft) => {
    if (((await draft.get<number>(FIRST)) ?? 1) < next) draft.put(FIRST, next)
  })
}

/** Returns the numbers that are gone. */
async function removeSome(draft: Draft, page: readonly number[], isOld: (head: HeadRow) => boolean): Promise<number[]> {
  const heads = await draft.all<HeadRow>(page.map(headField))
  await draft.texts(parkedFields(heads))
  const gone: number[] = []
  for (const [i, no] of page.entries()) {
    const head = heads[i]
    if (head && (!isOld(head) || (await isNeeded(draft, head)))) continue
    gone.push(no)
    if (head) for (const field of [headField(no), restField(no), idField(head.id)]) draft.put(field, null)
  }
  return gone
}

/** The parked letters behind an unapplied one need its row. */
async function isNeeded(draft: Draft, head: HeadRow): Promise<boolean> {
  if (head.state === 'redriven') return false
  const [parked] = await draft.all<number>(parkedFields([head]))
  return (parked ?? 0) > 0
}

async function sweepRedrives(rows: Rows, consumer: string): Promise<void> {
  const [made] = await reading<number>(rows, REGISTRY, [REDRIVES_MADE])
  const all = numbers(1, made ?? 0)
  const owners = await reading<string>(rows, REGISTRY, all.map(redriveConsumer))
  const own = all.filter((_, i) => owners[i] === consumer)
  const kept = await reading<RedriveRow>(rows, consumer, own.map(redriveField))
  for (const redrive of own.filter((_, i) => typeof kept[i]?.endedAt === 'number')) {
    await changing(rows, consumer, async (draft) => {
      const row = await draft.get<RedriveRow>(redriveField(redrive))
      if (!row || row.endedAt === null || row.endedAt > draft.now - REDRIVE_KEPT_MS) return
      draft.put(redriveField(redrive), null)
      for (const ord of numbers(1, row.items)) {
        draft.put(itemField(redrive, ord), null)
        draft.put(copyField(redrive, ord), null)
      }
    })
  }
}
