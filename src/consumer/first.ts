import type { Arrival } from './inbox/arrival.ts'
import type { PulledSource } from '../source/source.ts'
import type { Broker } from './broker.ts'
import { deliveriesOf, type ConsumerParts } from './parts.ts'

/** 'begun': the message may have run before. 'troubled': the store failed, and nothing runs. */
export type First = 'run' | 'begun' | 'troubled'

/** For 'at-most-once', before anything runs. For a log, the position is stored first, because it decides what runs. */
export async function ackFirst<Tx>(
  parts: ConsumerParts<Tx>,
  { source, broker }: { readonly source: PulledSource<unknown>; readonly broker: Broker },
  batch: readonly Arrival[],
): Promise<First> {
  const { inbox, settings } = parts
  if (batch.some(({ failure }) => failure)) return 'run'
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

/**
 * The process that counts the first attempt runs the message. The count stays until the message can no longer come
 * again.
 */
async function countFirst<Tx>(
  { core, inbox, settings }: ConsumerParts<Tx>,
  batch: readonly Arrival[],
): Promise<boolean> {
  const open = batch.filter(({ counted }) => !counted)
  if (open.length === 0) return true
  const consumer = settings.name
  const items = open.map(({ item }) => item)
  const states = await inbox.look({ consumer, items })
  if (states.some((state) => state === 'duplicate' || state === 'parked')) return false
  const ids = open.flatMap((arrival) => [arrival.item.id, (arrival.mark ??= core.random.uuid())])
  const times = new Map((await inbox.trying({ consumer, ids })).map(({ id, attempts }) => [id, attempts]))
  // A count whose reply was lost is counted again, together with its mark. What is more comes from another attempt.
  if (open.some(({ item, mark }) => times.get(item.id) !== times.get(mark ?? ''))) return false
  for (const arrival of open) Object.assign(arrival, { counted: true, attempts: 1 })
  return true
}
