import type { Checker } from './checker.ts'

export const answeredIsCommitted: Checker = {
  id: 'I2',
  says: 'a caller sees a success only after the effect has committed',
  check(trace) {
    const committed = new Set<number>()
    const broken: string[] = []
    for (const event of trace) {
      if (event.kind === 'commit') {
        for (const { exec, part } of event.effects) if (part === 'main') committed.add(exec)
      } else if (event.kind === 'outcome' && event.result.is === 'value' && !committed.has(event.result.exec)) {
        broken.push(
          `call ${event.call} of ${event.key} got the answer of execution ${event.result.exec}, which has not committed`,
        )
      }
    }
    return broken
  },
}
