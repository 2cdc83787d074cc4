import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const publishedIffCommitted: Checker = {
  id: 'I6',
  says: 'an event commits with its own effect and no other; an uncommitted event is never sent',
  check(trace) {
    const broken: string[] = []
    const planned = new Map<string, number>()
    for (const { plan } of eventsOf(trace, 'plan')) planned.set(plan.key, plan.events.length)
    const committed = new Set<string>()
    for (const happened of trace) {
      if (happened.kind === 'commit') {
        const counts = new Map<number, number>()
        for (const { event, exec } of happened.events) {
          committed.add(event)
          counts.set(exec, (counts.get(exec) ?? 0) + 1)
        }
        for (const { key, exec, part } of happened.effects) {
          if (part === 'book' || key.startsWith('own-')) continue
          const events = counts.get(exec) ?? 0
          counts.delete(exec)
          const wanted = part === 'remark' ? 1 : planned.get(key)
          if (events !== wanted)
            broken.push(`execution ${exec} of ${key} committed its effect with ${events} events of ${wanted}`)
        }
        for (const exec of counts.keys()) broken.push(`execution ${exec} committed events without its effect`)
      } else if (happened.kind === 'accept' && !committed.has(happened.event)) {
        broken.push(`${happened.event} was sent, and was not committed then`)
      }
    }
    return broken
  },
}
