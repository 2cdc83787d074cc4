import { instanceOf } from '../once/instance.ts'
import { OrderedSide } from './ordered-side.ts'
import type { Finding, ReconciliationOptions } from './types.ts'

/** Everything about one key. */
export interface Compared<O, T> {
  readonly key: string
  readonly ours: number
  readonly theirs: number
  readonly findings: readonly Finding<O, T>[]
}

type Sides<O, T> = Pick<ReconciliationOptions<O, T>, 'once' | 'ours' | 'theirs' | 'key'>

/** Walks through both sides at once, key by key, beginning after the given key. Throws `Paused` at the signal. */
export async function* compare<O, T>(
  { once, ours, theirs, key: keyOf }: Sides<O, T>,
  after: string | null,
  signal?: AbortSignal,
): AsyncGenerator<Compared<O, T>> {
  const { clock } = instanceOf(once).core
  const how = { keyOf, after, clock, signal }
  const left = new OrderedSide('ours', ours, how)
  let right: OrderedSide<T> | undefined
  try {
    right = new OrderedSide('theirs', theirs, how)
    for (;;) {
      const [ourKey, theirKey] = [await left.key(), await right.key()]
      const key = ourKey === null || (theirKey !== null && theirKey < ourKey) ? theirKey : ourKey
      if (key === null) return
      const [mine, others] = [await left.take(key), await right.take(key)]
      yield { key, ours: mine.length, theirs: others.length, findings: findingsOf(key, mine, others) }
    }
  } finally {
    await Promise.all([left.close(), right?.close()])
  }
}

/** The surplus of the longer side. Entries of one key are taken in the order in which they came. */
function findingsOf<O, T>(key: string, ours: readonly O[], theirs: readonly T[]): Finding<O, T>[] {
  const [first] = ours
  if (first === undefined) return theirs.map((entry) => ({ kind: 'orphaned', key, theirs: entry }))
  const missing = ours.slice(theirs.length).map((entry) => ({ kind: 'missing', key, ours: entry }) as const)
  const double = theirs
    .slice(ours.length)
    .map((entry) => ({ kind: 'double', key, ours: first, theirs: entry }) as const)
  return [...missing, ...double]
}
