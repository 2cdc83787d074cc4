import { eventsOf } from '../trace.ts'
import type { CommittedEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

/** The events of one shard behind its cursor, which only grows. */
interface Shard {
  cursor: number
  readonly open: CommittedEvent[]
}

export const noneLost: Checker = {
  id: 'I7',
  says: 'no event is lost: behind a cursor it was sent or is held, and in the end every event was sent or parked',
  check(trace) {
    const broken: string[] = []
    const safe = new Set<string>()
    const shards = new Map<number, Shard>()
    for (const happened of trace) {
      if (happened.kind === 'accept') safe.add(happened.event)
      else if (happened.kind === 'held') {
        // An event that is no longer held was sent, and counts as safe already. Otherwise no relay would ever look for
        // it.
        if (happened.state !== null) safe.add(happened.event)
      } else if (happened.kind === 'commit') {
        for (const event of happened.events) {
          const shard = shards.get(event.shard) ?? { cursor: 0, open: [] }
          shards.set(event.shard, shard)
          if (event.unwanted) safe.add(event.event)
          if (event.seq <= shard.cursor) broken.push(`${event.event} was committed behind the cursor of its shard`)
          else shard.open.push(event)
        }
      } else if (happened.kind === 'acked') {
        const shard = shards.get(happened.shard)
        if (shard === undefined || happened.cursor <= shard.cursor) continue
        shard.cursor = happened.cursor
        for (const passed of shard.open.filter(({ seq }) => seq <= happened.cursor)) {
          if (!safe.has(passed.event)) broken.push(`a cursor passed ${passed.event}, which was neither sent nor held`)
        }
        shard.open.splice(0, shard.open.length, ...shard.open.filter(({ seq }) => seq > happened.cursor))
      }
    }
    for (const { pending } of eventsOf(trace, 'end')) {
      if (pending.length > 0) broken.push(`in the end neither sent nor given up: ${pending.slice(0, 5).join(', ')}`)
    }
    return broken
  },
}
