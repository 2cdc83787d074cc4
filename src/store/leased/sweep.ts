import { REDRIVE_KEPT_MS } from '../../limits.ts'
import {
  CONSUMER,
  copyField,
  FIRST,
  headField,
  idField,
  itemField,
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
import { headsFrom, sameAggregate } from './letters.ts'
import { changing, reading, type Rows } from './rows.ts'

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
  const heads = await headsFrom(rows, consumer)
  const parked = heads.flatMap(({ head }) => (head.state === 'parked' ? head : []))
  // The parked letters behind an unapplied one need its row.
  const isOld = ({ state, settledAt, parkedAt, ...head }: HeadRow): boolean =>
    state !== 'parked' &&
    (settledAt ?? parkedAt) < now - row.lettersForMs &&
    (state === 'redriven' || !parked.some((other) => sameAggregate(other, head)))
  const old = heads.filter(({ head }) => isOld(head))
  for (let at = 0; at < old.length; at += PAGE) {
    await changing(rows, consumer, async (draft) => {
      const page = old.slice(at, at + PAGE)
      const current = await draft.all<HeadRow>(page.map(({ no }) => headField(no)))
      for (const [i, { no }] of page.entries()) {
        const head = current[i]
        if (!head || !isOld(head)) continue
        for (const field of [headField(no), restField(no), idField(head.id)]) draft.put(field, null)
      }
    })
  }
  const [first] = heads.filter((of) => !old.includes(of))
  if (!first || first === heads[0]) return
  await changing(rows, consumer, async (draft) => {
    if (((await draft.get<number>(FIRST)) ?? 1) < first.no) draft.put(FIRST, first.no)
  })
}

async function sweepRedrives(rows: Rows, consumer: string): Promise<void> {
  const [made] = await reading<number>(rows, REGISTRY, [REDRIVES_MADE])
  const all = numbers(1, made ?? 0)
  const owners = await reading<string>(rows, REGISTRY, all.map(redriveConsumer))
  for (const redrive of all.filter((_, i) => owners[i] === consumer)) {
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
