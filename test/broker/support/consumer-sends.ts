import type { OutgoingEvent } from '../../../src/sink/sink.ts'
import { eventFor } from '../../../src/testing/sink-contract/index.ts'

const PER_AGGREGATE = 10
/** How far an event may be from its place: a chain is out of order, and its parts are not a whole run apart. */
const WINDOW = 3_000
const AT_A_TIME = 200
const COPIES_MAX = 5

export interface Sends {
  readonly events: number
  /** The first deliveries of an aggregate's events are in order, and no event names its predecessor. */
  readonly inOrder: boolean
  /** How often an event comes at most. Default: 5 */
  readonly copies?: number | undefined
}

/** How often an event comes: the same for everybody who asks. */
export function copiesOf(
  { aggregate, n }: { readonly aggregate: string; readonly n: number },
  most = COPIES_MAX,
): number {
  let hash = n
  for (const letter of aggregate) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0
  return 1 + (hash % most)
}

/** Each event once, as it was made. */
export function eventsOf({ events, inOrder }: Sends): OutgoingEvent[] {
  return Array.from({ length: events }, (_, i) => (inOrder ? plain(i) : mixed(i)))
}

/**
 * Every event 1 to 5 times. In random order: each copy anywhere in a window, and every other aggregate's events are
 * `ordered` (its name begins with an o). In order: the first copies as they were made, the others any time after.
 */
export function sendsOf({ events, inOrder, copies: most = COPIES_MAX }: Sends): OutgoingEvent[] {
  const placed: { readonly event: OutgoingEvent; readonly at: number }[] = []
  for (const [i, event] of eventsOf({ events, inOrder }).entries()) {
    const copies = copiesOf(event.data as Parameters<typeof copiesOf>[0], most)
    for (let copy = 0; copy < copies; copy++) {
      const late = inOrder && copy === 0 ? 0 : Math.random() * WINDOW
      // Under ids of their own, as deliberate resends are: the broker must not drop them.
      const brokerId = `${event.id}:r${copy}`
      const at = i * ((1 + most) / 2) + late
      placed.push({ event: { ...event, brokerId, deduplicationId: brokerId }, at })
    }
  }
  return placed.toSorted((a, b) => a.at - b.at).map(({ event }) => event)
}

interface Place {
  readonly aggregate: string
  readonly n: number
  readonly isEven: boolean
}

/** Some aggregates at a time, as in life. */
function placeOf(i: number): Place {
  const block = Math.floor(i / (AT_A_TIME * PER_AGGREGATE))
  const within = i % (AT_A_TIME * PER_AGGREGATE)
  const aggregate = `${block}-${within % AT_A_TIME}`
  return { aggregate, n: Math.floor(within / AT_A_TIME) + 1, isEven: within % 2 === 0 }
}

function plain(i: number): OutgoingEvent {
  const { aggregate, n } = placeOf(i)
  return { ...eventFor(`p${aggregate}`, n), id: `p${aggregate}-${n}` }
}

function mixed(i: number): OutgoingEvent {
  const { aggregate, n, isEven } = placeOf(i)
  const name = `${isEven ? 'o' : 'u'}${aggregate}`
  const idOf = (which: number): string => (which === 0 ? '' : `${name}-${which}`)
  return { ...eventFor(name, n), id: idOf(n), previous: isEven ? idOf(n - 1) : undefined }
}
