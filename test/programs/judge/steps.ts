import { isOnce } from './failures.ts'
import type { History, Step } from './history.ts'
import { inWords } from './model.ts'
import { ownerOf } from './names.ts'
import type { Violation } from './violation.ts'

/** Outside calls: at least once under one key, not again once recorded; without a key never again while its outcome is open. */
export function stepsWrong({ steps, killedAt }: History): Violation[] {
  const byName = new Map<string, Step[]>()
  for (const step of steps) {
    const name = `${ownerOf(step.exec)}/${step.name}`
    byName.set(name, [...(byName.get(name) ?? []), step])
  }
  return [...byName].flatMap(([name, attempts]) => [
    ...attempts.flatMap((step) => endWrong(name, step, attempts, killedAt)),
    ...callsWrong(name, attempts),
    ...waitsWrong(name, attempts, killedAt ?? Infinity),
  ])
}

function callsWrong(name: string, attempts: readonly Step[]): Violation[] {
  const violations: Violation[] = []
  const keys = new Set(attempts.flatMap(({ outside }) => outside.map(({ key }) => key)))
  if (keys.size > 1) violations.push({ rule: 'steps', text: `step ${name} was called under ${keys.size} keys` })
  const [first] = attempts
  const calls = attempts.flatMap(({ outside }) => outside)
  const charges = calls.filter(({ charged }) => charged).length
  if (first && !first.keyed && first.reconciles && charges > 1)
    violations.push({
      rule: 'steps',
      text: `step ${name} was done ${charges} times, although its provider can be asked`,
    })
  if (first && !first.keyed && !first.reconciles && calls.length > 1)
    violations.push({
      rule: 'steps',
      text: `step ${name} was called again, and nobody knew what became of the first call`,
    })
  for (const [i, step] of attempts.entries()) {
    const recorded = attempts
      .slice(0, i)
      .some(({ heard, end }) => heard !== null && 'value' in heard && (end ?? 0) < step.at)
    if (recorded && step.outside.length > 0)
      violations.push({ rule: 'steps', text: `step ${name} was called again after it was recorded` })
  }
  return violations
}

function endWrong(name: string, step: Step, attempts: readonly Step[], killedAt: number | null): Violation[] {
  const { heard, exec } = step
  if (heard === null) return killedAt === null ? [{ rule: 'end', text: `step ${name} never ended` }] : []
  const told = (text: string): Violation[] => [{ rule: 'steps', text: `step ${name} ${text}` }]
  if ('value' in heard) {
    const known = attempts.flatMap(({ outside }) => outside.filter(({ charged }) => charged).map(({ id }) => id))
    return heard.value !== null && known.includes(heard.value) ? [] : told(`heard ${inWords(heard)}`)
  }
  if (heard.error.kind === 'thrown' && heard.error.by === exec.id) return []
  if (isOnce(heard, 'ONCE_ANSWER_INVALID')) return []
  // Who died in it may have died before the call: that, too, is not known.
  const isOpen = ({ outside, heard: said }: Step): boolean => outside.length > 0 || (said === null && killedAt !== null)
  const open = attempts.some((other) => other !== step && other.at < step.at && isOpen(other))
  if (isOnce(heard, 'ONCE_OUTCOME_UNKNOWN') && !step.keyed && !step.reconciles && open) return []
  // Another step of the same attempt found that nobody knows its outcome: the whole operation stops there.
  const stopped = exec.steps.some((other) => other.heard !== null && isOnce(other.heard, 'ONCE_OUTCOME_UNKNOWN'))
  if (isOnce(heard, 'ONCE_LEASE_LOST') && stopped) return []
  // Begun by what the handler left behind, while it was committing.
  if (isOnce(heard, 'ONCE_STEP_PENDING') && exec.commitsAt !== null && exec.commitsAt < (step.end ?? 0)) return []
  // Begun by what the handler left behind, after the attempt had ended.
  if (isOnce(heard, 'ONCE_TX_CLOSED') && exec.end !== null && exec.end < (step.end ?? 0)) return []
  return told(`failed: ${inWords(heard)}`)
}

/** No attempt begins while a call of the one before it is under way. */
function waitsWrong(name: string, attempts: readonly Step[], diedAt: number): Violation[] {
  return attempts.flatMap((step, i) => {
    const underWay = attempts.slice(0, i).find((other) => other.outside.length > 0 && (other.end ?? diedAt) > step.at)
    if (!underWay || underWay.exec === step.exec) return []
    return [{ rule: 'waits', text: `step ${name} was tried again while its first call was under way` }]
  })
}
