import type { Checker } from './checker.ts'

export const leaseKept: Checker = {
  id: 'I29',
  says: 'an attempt does not release its lease while it has an outside call without a key in progress',
  check(trace) {
    const broken: string[] = []
    const underWay = new Map<string, string>()
    for (const event of trace) {
      if (event.kind === 'calling' && !event.keyed && event.token !== null)
        underWay.set(`${event.exec} ${event.step}`, `${event.key} ${event.token}`)
      else if (event.kind === 'called') underWay.delete(`${event.exec} ${event.step}`)
      else if (event.kind === 'commit') {
        for (const { op, key, token } of event.notes) {
          if ((op !== 'release' && op !== 'suspend') || token === null) continue
          const [call] = [...underWay].find(([, holder]) => holder === `${key} ${token}`) ?? []
          if (call !== undefined) broken.push(`the lease of ${key} was let go while call ${call} was under way`)
        }
      }
    }
    return broken
  },
}
