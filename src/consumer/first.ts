import type { Arrival } from './inbox/arrival.ts'
import type { PulledSource } from '../source/source.ts'
import type { Broker } from './broker.ts'
import { deliveriesOf, type ConsumerParts } from './parts.ts'

/** 'begun': somebody ran it before, as far as anybody knows. 'troubled': it could not be had, and nothing runs. */
export type First = 'run' | 'begun' | 'troubled'

/** Of 'at-most-once', before anything runs. Of a log the position goes first: it decides. */
export async function ackFirst<Tx>(
  parts: ConsumerParts<Tx>,
  { source, broker }: { readonly source: PulledSource<unknown>; readonly broker: Broker },
  batch: readonly Arrival[],
): Promise<First> {
  const { inbox, settings } = parts
  const deliveries = deliveriesOf(batch)
  const positions = source.features.positions ? deliveries.flatMap(({ position }) => position ?? []) : []
  let isFirst = true
  const written = await broker.told(async () => {
    if (positions.length > 0) await inbox.pass({ consumer: settings.name, source: source.name, positions })
    if (broker.acksLater) isFirst = await countFirst(parts, batch)
  })
  if (!written || !(await broker.ack(deliveries))) return 'troubled'
  return isFirst ? 'run' : 'begun'
}

/** Whoever counts an attempt first runs the message. The count stays: nobody deletes it before it cannot come again. */
async function countFirst<Tx>({ inbox, settings }: ConsumerParts<Tx>, batch: readonly Arrival[]): Promise<boolean> {
  const open = batch.filter(({ counted }) => !counted)
  if (open.length === 0) return true
  const consumer = settings.name
  const items = open.map(({ item }) => item)
  const states = await inbox.look({ consumer, items })
  if (states.some((state) => state === 'duplicate' || state === 'parked')) return false
  const tries = await inbox.trying({ consumer, ids: items.map(({ id }) => id) })
  if (tries.some(({ attempts }) => attempts > 1)) return false
  for (const arrival of open) arrival.counted = true
  return true
}
