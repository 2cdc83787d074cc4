import { checkAccountable } from '../dead-letter/accountable.ts'
import { PARKED_LINES_MAX, PARKED_LIST_DEFAULT, PARKED_LIST_MAX, RELAY_UNPARK_EVENTS } from '../limits.ts'
import { invalid, refuseUnknown, wholeNumber } from '../options.ts'
import { isStorable } from '../platform/storable.ts'
import { required } from '../store/lacking.ts'
import type { ParkedLine, Parked as StoredParked } from '../store/parked.ts'
import type { Core } from '../operation/core.ts'
import type { Parked, ParkedListOptions, ParkedOptions } from './parked-types.ts'
import { outboxOf } from './resend.ts'
import { UUID } from '../platform/uuid.ts'

const LIST_OPTIONS = new Set(['destination', 'aggregate', 'limit', 'after'])
const OPTIONS = new Set(['destination', 'id', 'aggregate', 'why', 'by'])

/** Events that relays of this instance's namespace parked. */
export function parkedOf<Tx>(core: Core<Tx>): Parked {
  const parked = required(core.store, outboxOf(core).parked, 'parked')
  return {
    async list(options) {
      await check(core, options, LIST_OPTIONS, 'parked.list()')
      const { destination, aggregate, limit = PARKED_LIST_DEFAULT, after = 0 } = options
      wholeNumber('limit', limit, PARKED_LIST_MAX)
      wholeNumber('after', after, Number.MAX_SAFE_INTEGER, 0)
      const events = await parked.list({ destination, aggregateId: aggregate ?? null, id: null, after, limit })
      return events.map(({ aggregateId, publishedAt, heldAt, shard: _shard, ...same }) => ({
        ...same,
        aggregate: aggregateId,
        publishedAt: new Date(publishedAt),
        heldAt: new Date(heldAt),
      }))
    },
    async release(options) {
      await check(core, options, OPTIONS, 'parked.release()')
      await write(core, 'release', { ...options, why: options.why ?? 'not said' })
      const { released } = await settleAll(parked, options, { release: true, skips: () => [] })
      wake(core)
      return released
    },
    async skip(options) {
      await check(core, options, OPTIONS, 'parked.skip()')
      await write(core, 'skip', options)
      // An event that never failed is skipped only if its id is given.
      const headsOf = (lines: readonly ParkedLine[]): number[] => lines.flatMap(({ head }) => head ?? [])
      const skips = (lines: readonly ParkedLine[], named: number | null): number[] =>
        named === null ? headsOf(lines) : [named]
      const { skipped } = await settleAll(parked, options, { release: false, skips })
      wake(core)
      return skipped
    },
  }
}

interface ParkedAction {
  readonly release: boolean
  /** The events of these lines that are skipped. `named`: the event whose id was given. */
  skips(lines: readonly ParkedLine[], named: number | null): readonly number[]
}

/**
 * Settles the lines in small transactions, so that the relay can already send the first ones. Each line is visited
 * once.
 */
async function settleAll(
  parked: StoredParked,
  { destination, id, aggregate }: ParkedOptions,
  { release, skips }: ParkedAction,
): Promise<{ released: number; skipped: number }> {
  const counts = { released: 0, skipped: 0 }
  const any = { destination, aggregateId: aggregate ?? null }
  const [named] = id === undefined ? [] : await parked.list({ ...any, id, after: 0, limit: 1 })
  if (id !== undefined && named === undefined) return counts
  const aggregateId = named?.aggregateId ?? any.aggregateId
  let after: ParkedLine | null = null
  for (;;) {
    const found: readonly ParkedLine[] = await parked.lines({
      destination,
      aggregateId,
      after,
      limit: PARKED_LINES_MAX,
    })
    const first = { release, skip: skips(found, named?.seq ?? null) }
    for (const [shard, aggregateIds] of byShard(found)) {
      for (let step = first; ; step = { release: false, skip: [] }) {
        const settled = await parked.settle({ destination, shard, aggregateIds, ...step, limit: RELAY_UNPARK_EVENTS })
        counts.released += settled.released
        counts.skipped += settled.skipped
        if (!settled.more) break
      }
    }
    if (found.length < PARKED_LINES_MAX) return counts
    after = found.at(-1) ?? null
  }
}

function byShard(lines: readonly ParkedLine[]): Map<number, string[]> {
  const shards = new Map<number, string[]>()
  for (const { shard, aggregateId } of lines) shards.set(shard, [...(shards.get(shard) ?? []), aggregateId])
  return shards
}

function wake<Tx>({ relays }: Core<Tx>): void {
  for (const relay of relays) relay.wake({ due: true })
}

/** The audit entry comes first: an entry without its change is harmless. */
async function write<Tx>(
  { namespace, settings, store }: Core<Tx>,
  action: 'release' | 'skip',
  { why, by = settings.namespace, ...asked }: ParkedOptions & { by?: string; why?: string },
): Promise<void> {
  const redrives = required(store, namespace.redrives, 'parked')
  const accountable = checkAccountable({ by, why: why as string })
  await redrives.write({ ...accountable, action: `parked ${action}`, redrive: null, detail: JSON.stringify(asked) })
}

async function check<Tx>(
  core: Core<Tx>,
  options: ParkedOptions | ParkedListOptions,
  known: ReadonlySet<string>,
  what: string,
): Promise<void> {
  if (typeof options !== 'object' || options === null) throw invalid(`${what} needs { destination }`)
  refuseUnknown(options, known, what)
  const { destination, aggregate } = options
  const { id } = options as ParkedOptions
  if (typeof destination !== 'string') throw invalid(`${what} needs { destination }`)
  for (const [name, value] of Object.entries({ destination, aggregate })) {
    if (value === undefined) continue
    if (typeof value !== 'string' || value === '' || !isStorable(value)) throw invalid(`${name} must be a string`)
  }
  if (id !== undefined && (typeof id !== 'string' || !UUID.test(id))) throw invalid('id must be the id of an event')
  const destinations = await outboxOf(core).destinations()
  if (!destinations.includes(destination)) throw invalid(`no relay has ever sent to '${destination.slice(0, 80)}'`)
}
