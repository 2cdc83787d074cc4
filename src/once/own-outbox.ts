import { RELAY_LEASE_MS_DEFAULT } from '../limits.ts'
import type { Events } from '../outbox/event.ts'
import { outboxSource } from '../source/outbox.ts'
import type { EventsOf, PulledSource } from '../source/source.ts'
import { wokenBy, type Core } from '../operation/core.ts'
import { outboxOf } from './resend.ts'

/** The instance's own events as a source. */
export function ownOutbox<Tx, E extends Events>(core: Core<Tx>): PulledSource<EventsOf<E>> {
  const { clock, settings, relays } = core
  return outboxSource<E>({
    outbox: outboxOf(core),
    clock,
    types: Object.keys(settings.events),
    events: settings.events,
    observe: settings.observe,
    source: settings.namespace,
    leaseMs: RELAY_LEASE_MS_DEFAULT,
    keptForMs: settings.resendForMs,
    onPublished(wake) {
      const woken = wokenBy(wake)
      relays.add(woken)
      return () => relays.delete(woken)
    },
  })
}
