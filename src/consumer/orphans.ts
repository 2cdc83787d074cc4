import type { Broker } from './broker.ts'
import type { Fates } from './fate.ts'

/** Messages whose predecessors never come run without them. */
export async function letOrphansRun(broker: Broker, fates: Fates): Promise<void> {
  const early = [...fates].flatMap(([arrival, { kind }]) => (kind === 'early' ? arrival : []))
  if (early.length === 0) return
  const orphans = new Set(await broker.orphans(early.map(({ delivery }) => delivery)))
  for (const arrival of early) {
    if (!orphans.has(arrival.delivery)) continue
    Object.assign(arrival, { item: { ...arrival.item, previous: null } })
    fates.set(arrival, { kind: 'again', alone: arrival.alone })
  }
}
