import type { Delivery, Subscription } from '../../../src/source/source.ts'
import type { ChaosSource } from './consumer-feeds.ts'

/**
 * Planted mistakes. ackFirst: the broker is told before the commit. noInbox: nothing remembers what was applied.
 * rowAfterEffect: the inbox row is written by a transaction of its own. noPrevious: `ordered` events are not waited for.
 * noLanes: the events of an aggregate are nothing special. shared: processes share what one must read alone.
 */
export const FLAWS = ['none', 'ackFirst', 'noInbox', 'rowAfterEffect', 'noPrevious', 'noLanes', 'shared'] as const

export type PlantedFlaw = (typeof FLAWS)[number]

export function flawed(source: ChaosSource, flaw: PlantedFlaw): ChaosSource {
  if (flaw === 'ackFirst') return received(source, (subscription, came) => acknowledged(subscription, came))
  if (flaw === 'noPrevious') return received(source, (_, came) => came.map((one) => hiding(one, 'previous')))
  if (flaw === 'noLanes') return received(source, (_, came) => came.map((one) => hiding(one, 'aggregate')))
  return source
}

function received(
  source: ChaosSource,
  change: (subscription: Subscription, came: readonly Delivery[]) => readonly Delivery[] | Promise<readonly Delivery[]>,
): ChaosSource {
  return {
    ...source,
    get redeliversFor() {
      return source.redeliversFor
    },
    async open(params) {
      const subscription = await source.open(params)
      const receive: Subscription['receive'] = async (asked) => change(subscription, await subscription.receive(asked))
      return new Proxy(subscription, {
        get(target, name) {
          if (name === 'receive') return receive
          const member: unknown = Reflect.get(target, name, target)
          return typeof member === 'function' ? (member as (...args: unknown[]) => unknown).bind(target) : member
        },
      })
    },
  }
}

async function acknowledged(subscription: Subscription, came: readonly Delivery[]): Promise<readonly Delivery[]> {
  if (came.length > 0) await subscription.ack(came)
  return came
}

/** The source finds its own delivery again: only what is hidden changes. */
function hiding(delivery: Delivery, member: 'previous' | 'aggregate'): Delivery {
  Object.defineProperty(delivery, member, { value: null })
  return delivery
}
