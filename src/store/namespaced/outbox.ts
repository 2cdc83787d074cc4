import type { Outbox } from '../outbox.ts'
import { partsOf, storedName } from './names.ts'
import type { Own } from './own.ts'
import { namespacedParked } from './parked.ts'

/** The outbox as one namespace sees it: its own events and destinations. */
export function namespacedOutbox(outbox: Outbox, own: Own): Outbox {
  const to = <P extends { readonly destination: string }>(params: P): P =>
    own.no === 0 ? params : { ...params, destination: own.stored(params.destination) }
  return {
    calls: outbox.calls,
    async open({ destination }) {
      await own.claim('destination', destination)
      await outbox.open({ destination: own.stored(destination), namespace: own.no })
    },
    beat: (params) => outbox.beat(to(params)),
    lease: (params) => outbox.lease(to(params)),
    read: (params) => outbox.read(to(params)),
    ack: (params) => outbox.ack(to(params)),
    due: (params) => outbox.due(to(params)),
    tryHeld: (params) => outbox.tryHeld(to(params)),
    async cancel({ id }) {
      const namespace = await own.look()
      return namespace < 0 ? 'unknown' : outbox.cancel({ id, namespace })
    },
    takeDelayed: ({ ids }) => outbox.takeDelayed({ ids, namespace: own.no }),
    heldBefore: (params) => outbox.heldBefore(to(params)),
    settleHeld: (params) => outbox.settleHeld(to(params)),
    ...(outbox.identity && { identity: outbox.identity.bind(outbox) }),
    async resend(params) {
      const namespace = await own.look()
      if (namespace < 0) return 0
      return outbox.resend({ ...params, destination: storedName(namespace, params.destination), namespace })
    },
    async destinations() {
      const no = await own.look()
      return (await outbox.destinations()).map(partsOf).flatMap((of) => (of.no === no ? of.name : []))
    },
    async forget({ destination }) {
      const no = await own.look()
      if (no >= 0) await outbox.forget({ destination: storedName(no, destination) })
    },
    release: (params) => outbox.release(to(params)),
    parked: outbox.parked && namespacedParked(outbox.parked, own),
  }
}
