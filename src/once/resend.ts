import { invalid, refuseUnknown } from '../options.ts'
import { isDate, isStorable, storableTime } from '../platform/storable.ts'
import type { Outbox } from '../store/outbox.ts'
import { required } from '../store/lacking.ts'
import type { Core } from '../operation/core.ts'
import type { Destinations, ResendOptions } from './types.ts'

const OPTIONS = new Set(['destination', 'since', 'until', 'type', 'aggregate'])

/** Sets events aside to be sent again, and wakes the relays of this process. */
export async function resendNow<Tx>(core: Core<Tx>, options: ResendOptions): Promise<number> {
  const outbox = outboxOf(core)
  if (typeof options !== 'object' || options === null) throw invalid('resend() needs { since }')
  refuseUnknown(options, OPTIONS, 'resend()')
  const { destination, type, aggregate } = options
  for (const [name, value] of Object.entries({ destination, type, aggregate })) {
    if (value === undefined) continue
    if (typeof value !== 'string' || value === '' || !isStorable(value)) throw invalid(`${name} must be a string`)
  }
  const since = timeOf('since', options.since)
  const until = options.until === undefined ? null : timeOf('until', options.until)
  const known = await outbox.destinations()
  if (destination !== undefined && !known.includes(destination)) {
    throw invalid(`no relay has ever sent to '${destination.slice(0, 80)}'`)
  }
  let events = 0
  for (const to of destination === undefined ? known : [destination]) {
    events += await outbox.resend({ destination: to, since, until, type: type ?? null, aggregateId: aggregate ?? null })
  }
  for (const relay of core.relays) relay.wake({ due: true })
  return events
}

export function destinationsOf<Tx>(core: Core<Tx>): Destinations {
  return {
    list: async () => outboxOf(core).destinations(),
    async remove(name) {
      if (typeof name !== 'string' || !isStorable(name)) throw invalid('destinations.remove() needs the name of a sink')
      await outboxOf(core).forget({ destination: name })
    },
  }
}

export function outboxOf<Tx>({ store, namespace }: Core<Tx>): Outbox {
  return required(store, namespace.outbox, 'outbox')
}

function timeOf(option: string, value: unknown): string {
  if (!isDate(value)) throw invalid(`${option} must be a Date`)
  return storableTime(value).toISOString()
}
