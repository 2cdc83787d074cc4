import { eventsOf } from '../trace.ts'
import type { EventOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const exactRefusals: Checker = {
  id: 'T3',
  says: 'nobody is told "running" about a key that had its answer before the call began',
  check(trace) {
    const broken: string[] = []
    const calls = eventsOf(trace, 'call')
    const began = new Map(calls.map((event) => [event.call, event]))
    const ended = new Map(eventsOf(trace, 'outcome').map((event) => [event.call, event]))
    for (const { call, key, result, record, now, t } of ended.values()) {
      if (result.is !== 'error' || result.code !== 'ONCE_IN_FLIGHT') continue
      const own = began.get(call)
      if (own?.record?.state !== 'completed' || own.record.life !== record?.life) continue
      if (record.expiresAt / 1000 <= now || key.endsWith('-inner')) continue
      // The process itself is running it, and has not been told yet that it committed.
      const runner = calls.some((other) => isRunner(other, own) && (ended.get(other.call)?.t ?? Infinity) >= t)
      if (!runner) broken.push(`call ${call} of ${key} got 409, but the key had its answer`)
    }
    return broken
  },
}

function isRunner(other: EventOf<'call'>, own: EventOf<'call'>): boolean {
  if (other.key !== own.key || other.process !== own.process || other.call === own.call) return false
  return other.record?.state !== 'completed' || other.record.life !== own.record?.life
}
