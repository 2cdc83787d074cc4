import { RERUNS_MAX } from '../../../limits.ts'
import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const bounded: Checker = {
  id: 'I20',
  says: 'the pool keeps its size and gets every connection back; re-runs are few; no transaction or lock stays open',
  check(trace) {
    const broken: string[] = []
    for (const { process, used, size } of eventsOf(trace, 'pool')) {
      if (used > size) broken.push(`${process} used ${used} connections of ${size}`)
    }
    const runs = new Map<string, number>()
    for (const { call, key } of eventsOf(trace, 'run'))
      runs.set(`${call} ${key}`, (runs.get(`${call} ${key}`) ?? 0) + 1)
    // A nested handler runs once per run of its outer handler.
    for (const [name, count] of runs) {
      if (count > (RERUNS_MAX + 1) ** 2) broken.push(`call ${name} ran its handler ${count} times`)
    }
    for (const { message } of eventsOf(trace, 'unhandled')) broken.push(`a rejection nobody handled: ${message}`)
    for (const { openTransactions, advisoryLocks, usedConnections, phase } of eventsOf(trace, 'end')) {
      if (phase === 'bound') continue
      if (openTransactions + advisoryLocks + usedConnections === 0) continue
      broken.push(
        `left behind: ${openTransactions} transactions, ${advisoryLocks} locks, ${usedConnections} connections`,
      )
    }
    return broken
  },
}
