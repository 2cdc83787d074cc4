import { isAbortedAtEnd, isPoisoned, isTainted, mayBePoisoned, type Dialect } from './failures.ts'
import type { Drain, Exec, History } from './history.ts'
import { storedMessageOf } from './names.ts'
import type { Seen } from './seen.ts'
import type { Violation } from './violation.ts'

/** Each message is applied or set aside, never both; nobody is set aside for what another did. */
export function messagesWrong(history: History, seen: Seen, name: string, dialect: Dialect): Violation[] {
  const { drains, program } = history
  const violations: Violation[] = []
  const drained = new Map<number, Drain[]>()
  for (const drain of drains) drained.set(drain.consumer, [...(drained.get(drain.consumer) ?? []), drain])
  for (const [consumer, of] of drained) {
    const plan = program.consumers[consumer]
    if (!plan || of.some(({ heard }) => heard === null)) continue
    for (const { heard } of of)
      if (heard && 'error' in heard)
        violations.push({ rule: 'messages', text: `drain() failed: ${JSON.stringify(heard)}` })
    const execs = of.flatMap((drain) => drain.execs)
    const isParked = (id: number): boolean => seen.parked.includes(storedMessageOf(history, name, consumer, id))
    for (const { id, aggregate } of new Set(plan.messages)) {
      const applied = seen.applied.includes(storedMessageOf(history, name, consumer, id))
      const parked = isParked(id)
      const told = (text: string): void => void violations.push({ rule: 'messages', text: `message ${id} ${text}` })
      if (applied && parked) told('was applied, and set aside')
      if (!applied && !parked && history.acked.has(`${consumer}.${id}`))
        told('was acknowledged, and neither applied nor set aside')
      else if (!applied && !parked)
        violations.push({ rule: 'left', text: `message ${id} was neither applied nor set aside` })
      const own = execs.filter(({ message }) => message?.id === id)
      const behind = plan.messages.some(
        (other) => other.id < id && other.aggregate !== null && other.aggregate === aggregate && isParked(other.id),
      )
      if (parked && !behind && !own.some((exec) => mayFail(exec, dialect)))
        violations.push({ rule: 'blame', text: `message ${id} was set aside, and nothing was wrong with it` })
      if (applied && own.every(({ heard }) => heard === null || 'error' in heard))
        told('was applied, and its handler never returned')
    }
  }
  return violations
}

function mayFail(exec: Exec, dialect: Dialect): boolean {
  const { heard, publishes } = exec
  if (heard === null || 'error' in heard) return true
  if (publishes.some((publish) => publish.heard !== null && 'error' in publish.heard)) return true
  return isAbortedAtEnd(exec, dialect) || isTainted(exec, dialect) || isPoisoned(exec) || mayBePoisoned(exec)
}
