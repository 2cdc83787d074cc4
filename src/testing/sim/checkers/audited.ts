import type { Checker } from './checker.ts'

export const audited: Checker = {
  id: 'I24, 32',
  says: 'the audit records every action on a redrive, and every manual action on letters',
  check(trace) {
    const broken: string[] = []
    let discards = 0
    for (const happened of trace) {
      if (happened.kind === 'audit' && happened.action === 'discard') discards += 1
      if (happened.kind === 'redrive' && !happened.audited)
        broken.push(`redrive ${happened.redrive} became ${happened.state}, and the audit does not know`)
      if (happened.kind === 'letter' && happened.state === 'discarded' && discards === 0)
        broken.push(`${happened.event} was discarded, and the audit does not know`)
    }
    return broken
  },
}
